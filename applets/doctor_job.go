package applets

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"shellctl/pkg/config"
	"shellctl/pkg/isolation"
)

// checkJob starts a confined script as a runner does.
func checkJob() finding {
	policy, _, err := isolation.FromEnviron(os.LookupEnv)
	if err != nil {
		return finding{"job", stateWarn, "not tried", ""}
	}
	dir, done, err := workdir()
	if err != nil {
		return broken("job", err.Error(), "make the directory for temporary files writable")
	}
	defer done()
	const advice = "run this as the user of the server, and look at the checks above"
	if err := startConfined(policy, dir); err != nil {
		return broken("job", err.Error(), advice)
	}
	return ok("job", "a confined script runs")
}

func startConfined(policy isolation.Policy, dir string) error {
	script, home := filepath.Join(dir, "script"), filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(script, []byte("echo x > \"$HOME/x\" && exit 7\n"), 0o600); err != nil {
		return err
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	var pid int
	var cell *isolation.Cell
	isolation.OnThread(func() {
		if cell, err = policy.Enter(); err != nil {
			return
		}
		if err = cell.Restrict(isolation.Job{Home: home, Cwd: home, Script: script}); err != nil {
			return
		}
		attr := &syscall.ProcAttr{Dir: home, Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}}
		pid, err = cell.ForkExec(sh, []string{"sh", script}, attr)
	})
	if cell != nil {
		defer cell.Close()
	}
	if err != nil {
		return fmt.Errorf("start confined script: %w", err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for confined script: %w", err)
	}
	if status.ExitStatus() != 7 {
		return fmt.Errorf("a confined script ended with %d instead of 7", status.ExitStatus())
	}
	return nil
}

// checkHome tries what a job may do in the HOME of the server.
func checkHome() finding {
	home := os.Getenv("HOME")
	if !filepath.IsAbs(home) {
		return broken("home", fmt.Sprintf("HOME is %q", home), "set HOME to a directory of the server's user: jobs work there")
	}
	policy, _, err := isolation.FromEnviron(os.LookupEnv)
	if err != nil {
		return finding{"home", stateWarn, "not tried", ""}
	}
	policy.Seccomp, policy.DropCaps = false, false // only paths matter here
	isolation.OnThread(func() { err = writeHome(policy, home) })
	if err != nil {
		return broken("home", fmt.Sprintf("a job can not write %s: %v", home, err),
			"give the server's user a HOME that it owns and that is no system directory")
	}
	return ok("home", home)
}

func writeHome(policy isolation.Policy, home string) error {
	cell, err := policy.Enter()
	if err != nil {
		return err
	}
	defer cell.Close()
	if err := cell.Restrict(isolation.Job{Home: home, Cwd: home}); err != nil {
		return err
	}
	f, err := os.CreateTemp(home, ".shellctl-doctor-")
	if err != nil {
		return err
	}
	_ = f.Close() // nothing was written to it
	return os.Remove(f.Name())
}

func checkToken() finding {
	if os.Getenv(config.EnvAuthToken) != "" {
		return ok("token", "")
	}
	return warned("token", config.EnvAuthToken+" is not set: whoever reaches the port can run jobs, jobs too",
		"set it, in the environment and not as a flag")
}
