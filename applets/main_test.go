package applets_test

import (
	"os"
	"testing"

	"shellctl/applets"
)

// TestMain lets the test binary be the product: tests start it again under the
// product's names.
func TestMain(m *testing.M) {
	if os.Getenv("SHELLCTL_TEST_MAIN") == "1" {
		os.Unsetenv("SHELLCTL_TEST_MAIN")
		os.Exit(applets.Main(os.Args))
	}
	os.Exit(m.Run())
}
