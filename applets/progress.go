package applets

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how many bytes have passed, and elsewhere
// nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress begins to show what was written to it. A size that is not known
// is -1.
func newProgress(stderr io.Writer, what string, size int64) *progress {
	if !isTerminal(stderr) || size == 0 {
		return &progress{}
	}
	return &progress{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(stderr),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowCount(),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetSpinnerChangeInterval(0), // drawn as bytes pass, not by a goroutine
		progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true),
	)}
}

// Write implements [io.Writer]. A bar that can not be drawn stops nothing.
func (p *progress) Write(b []byte) (int, error) {
	if p.bar != nil {
		_ = p.bar.Add(len(b))
	}
	return len(b), nil
}

// end takes the bar off the terminal.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
	}
}
