package applets

// table lists every applet in reading order.
func table() []applet {
	return []applet{
		{name: "sanitize-pty", installed: "shellctl-sanitize-pty", short: "Turn terminal bytes into plain text", internal: true, run: runSanitizePTY},
	}
}
