package applets_test

import (
	"os"
	"testing"

	"shellctl/applets"
)

// TestMain makes the test binary impersonate the product where a test asks for it
// by the environment, so that tests run real processes of it.
func TestMain(m *testing.M) {
	if os.Getenv("SHELLCTL_TEST_MAIN") == "1" {
		os.Unsetenv("SHELLCTL_TEST_MAIN")
		os.Exit(applets.Main(os.Args))
	}
	os.Exit(m.Run())
}
