package applets

import (
	"fmt"
	"os"
	"strings"

	"shellctl/pkg/config"
	"shellctl/pkg/isolation"
)

func checkSettings() finding {
	_, notes, err := isolation.FromEnviron(os.LookupEnv)
	if err == nil {
		_, err = config.RunnerFromEnv()
	}
	switch {
	case err != nil:
		return broken("settings", err.Error(), "the server would not start: correct the variable")
	case len(notes) > 0:
		return warned("settings", strings.Join(notes, "; "), "correct the list if the path is misspelt; a missing path is not granted")
	}
	return ok("settings", "")
}

// checkIsolation reports every layer, and tries those that should hold.
func checkIsolation(string) []finding {
	policy, _, err := isolation.FromEnviron(os.LookupEnv)
	if err != nil {
		return nil // told by settings
	}
	report := policy.Probe()
	found := []finding{checkLandlock(policy, report)}
	dir, done, err := workdir()
	if err != nil {
		return append(found, broken("isolation", err.Error(), "make the directory for temporary files writable"))
	}
	defer done()
	failed, err := policy.Try(report, dir)
	if err != nil {
		found = append(found, broken("isolation", err.Error(), "every job would end with 126"))
	}
	for _, l := range report.Layers {
		found = append(found, layerFinding(l, failed[l.Name]))
	}
	return found
}

func checkLandlock(policy isolation.Policy, r isolation.Report) finding {
	detail := fmt.Sprintf("ABI %d of the kernel, %d in use", r.KernelABI, r.ABI)
	switch {
	case r.Refusing:
		return broken("landlock", strings.TrimSuffix(detail+"; every job is refused: "+r.Broken, ": "),
			"boot a kernel with Landlock (lsm=landlock,...), or correct the path lists, or do not require it")
	case !policy.Paths:
		return finding{"landlock", stateOff, "switched off: jobs can do all that this user can", "set SHELLCTL_ENABLE_PATH_ISOLATION=true unless the sandbox around is enough"}
	case r.ABI == 0:
		return broken("landlock", r.Layer("paths").Detail+": jobs can do all that this user can",
			"boot a kernel of 5.13 or later with lsm=landlock,..., and let the container's seccomp profile pass system calls 444 to 446")
	}
	return ok("landlock", detail)
}

// layerFinding judges one layer; err says that it does not hold.
func layerFinding(l isolation.Layer, err error) finding {
	switch {
	case err != nil:
		return broken(l.Name, err.Error(), "the kernel does not do what it reports: report this with its version")
	case l.State == isolation.Enforced:
		return ok(l.Name, l.Detail)
	case l.State == isolation.Off:
		return finding{l.Name, stateOff, l.Detail, ""}
	case l.Name == "paths":
		return broken(l.Name, l.Detail, "")
	}
	return warned(l.Name, l.Detail, layerAdvice(l.Name))
}

func layerAdvice(name string) string {
	if name == "seccomp" {
		return "use a kernel built with CONFIG_SECCOMP_FILTER"
	}
	return "use a newer kernel"
}
