package applets

// table lists every applet in reading order.
func table() []applet {
	return []applet{
		{name: "agent", installed: "dify-agent", short: "Talk to the agent from inside a job", run: runAgent},
		{name: "sanitize-pty", installed: "shellctl-sanitize-pty", short: "Turn terminal bytes into plain text", internal: true, run: runSanitizePTY},
	}
}
