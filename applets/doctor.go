package applets

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"shellctl/pkg/config"
)

// finding is what a check found out about one feature.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, off, warn, fail
	Detail string `json:"detail,omitempty"`
	Advice string `json:"advice,omitempty"` // what to do about it
}

// The states of a finding. Only fail means that jobs could not run safely.
const (
	stateOK   = "ok"
	stateOff  = "off" // by the operator's own choice
	stateWarn = "warn"
	stateFail = "fail"
)

func ok(name, detail string) finding { return finding{name, stateOK, detail, ""} }

func warned(name, detail, advice string) finding { return finding{name, stateWarn, detail, advice} }

func broken(name, detail, advice string) finding { return finding{name, stateFail, detail, advice} }

// diagnosis is the answer of doctor.
type diagnosis struct {
	OK      bool      `json:"ok"` // jobs can run safely
	Version string    `json:"version"`
	Kernel  string    `json:"kernel"`
	Checks  []finding `json:"checks"`
}

type doctorOptions struct {
	json     bool
	stateDir string
	check    string
}

func runDoctor(c call) int {
	c.args = doubleDash(c.args)
	var o doctorOptions
	cmd := newCommand(c, "[FLAGS]", "Try on this machine what jobs need, as the server would be started.")
	cmd.Args = cobra.NoArgs
	cmd.Flags().BoolVar(&o.json, "json", false, "print the findings as JSON")
	cmd.Flags().StringVar(&o.stateDir, "state-dir", "", "directory of the record and the jobs (default as for serve)")
	cmd.Flags().StringVar(&o.check, "check", "", "make one check in this process")
	if err := cmd.Flags().MarkHidden("check"); err != nil {
		panic(err) // the flag is right above
	}
	cmd.RunE = func(*cobra.Command, []string) error { return doctor(o, c) }
	return execute(c, cmd)
}

// doctor makes every check in a child of its own: what a check does to its
// process is irreversible, and none must take the others along.
func doctor(o doctorOptions, c call) error {
	if o.stateDir == "" {
		dir, err := config.StateDir()
		if err != nil {
			return err
		}
		o.stateDir = dir
	}
	if o.check != "" {
		return checkHere(o, c.stdout)
	}
	ctx, stop := interruptible(context.Background())
	defer stop()
	d := diagnosis{OK: true, Version: version(), Kernel: kernelRelease()}
	for _, check := range checks() {
		d.Checks = append(d.Checks, checkInChild(ctx, check.name, o.stateDir)...)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, f := range d.Checks {
		d.OK = d.OK && f.State != stateFail
	}
	if err := d.print(c.stdout, o.json); err != nil {
		return err
	}
	if !d.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (d diagnosis) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(d)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "shellctl %s on Linux %s\n\n%-17s %-5s %s\n", d.Version, d.Kernel, "CHECK", "STATE", "WHAT WAS FOUND")
	for _, f := range d.Checks {
		line := fmt.Sprintf("%-17s %-5s %s", f.Name, f.State, f.Detail)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if f.Advice != "" {
			fmt.Fprintf(&b, "%23s -> %s\n", "", f.Advice)
		}
	}
	verdict := "Jobs can run safely here."
	if !d.OK {
		verdict = "Jobs could not run safely here."
	}
	fmt.Fprintf(&b, "\n%s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}
