// Command shellctl is the multi-call binary: every role of the product is an
// applet, picked by the name it is called with or by its first argument.
package main

import (
	"os"

	"shellctl/applets"
)

func main() {
	os.Exit(applets.Main(os.Args))
}
