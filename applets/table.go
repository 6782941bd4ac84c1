package applets

// table lists every applet in reading order.
func table() []applet {
	return []applet{
		{name: "serve", short: "Serve the HTTP API that runs shell jobs", run: runServe},
		{name: "runner", installed: "shellctl-runner", short: "Own one job", internal: true, run: runRunner},
		{name: "runner-exit", installed: "shellctl-runner-exit", short: "Record the end of a job", internal: true, run: runRunnerExit},
		{name: "sanitize-pty", installed: "shellctl-sanitize-pty", short: "Turn terminal bytes into plain text", internal: true, run: runSanitizePTY},
	}
}
