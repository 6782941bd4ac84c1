package applets

// table lists every applet in reading order.
func table() []applet {
	return []applet{
		{name: "serve", short: "Serve the HTTP API that runs shell jobs", run: runServe},
		{name: "run", short: "Run a script as a job and print its output", run: runRun},
		{name: "wait", short: "Print the output of a job until it ends", run: runWait},
		{name: "tail", short: "Print the end of a job's output", run: runTail},
		{name: "input", short: "Type text into the terminal of a job", run: runInput},
		{name: "terminate", short: "End a job and all its processes", run: runTerminate},
		{name: "delete", short: "Remove a job with its output", run: runDelete},
		{name: "list", short: "List jobs", run: runList},
		{name: "status", short: "Print the state of a job", run: runStatus},
		{name: "snapshot", short: "Save the home directory of a server, or restore it", run: runSnapshot},
		{name: "health", short: "Ask whether a server answers", run: runHealth},
		{name: "install", short: "Put this program into a directory under all its names", run: runInstall},
		{name: "agent", installed: "dify-agent", short: "Talk to the agent from inside a job", run: runAgent},
		{name: "doctor", short: "Try on this machine what jobs need", run: runDoctor},
		{name: "runner", installed: "shellctl-runner", short: "Own one job", internal: true, run: runRunner},
		{name: "runner-exit", installed: "shellctl-runner-exit", short: "Record the end of a job", internal: true, run: runRunnerExit},
		{name: "sanitize-pty", installed: "shellctl-sanitize-pty", short: "Turn terminal bytes into plain text", internal: true, run: runSanitizePTY},
	}
}
