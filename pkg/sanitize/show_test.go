package sanitize_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"shellctl/pkg/sanitize"
)

// player is the caller of a Filter, with a clock: it calls Show when text is due.
type player struct {
	*testing.T
	out bytes.Buffer
	f   *sanitize.Filter
}

// play runs test inside a bubble, where sleeping takes no time.
func play(t *testing.T, test func(p *player)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &player{T: t}
		p.f = sanitize.New(&p.out)
		test(p)
	})
}

func (p *player) write(s string) {
	p.Helper()
	write(p, p.f, []byte(s))
}

// pass lets time pass, and text show that is due in it.
func (p *player) pass(d time.Duration) {
	p.Helper()
	end := time.Now().Add(d)
	for at := p.f.ShowAt(); !at.IsZero() && !at.After(end); at = p.f.ShowAt() {
		time.Sleep(time.Until(at))
		show(p, p.f)
	}
	time.Sleep(time.Until(end))
}

// shows checks what can be read so far.
func (p *player) shows(want string) {
	p.Helper()
	if got := p.out.String(); got != want {
		p.Fatalf("log is %q, want %q", got, want)
	}
}

// ends checks the log behind the end of the stream.
func (p *player) ends(want string) {
	p.Helper()
	closeFilter(p, p.f)
	p.shows(want)
}

const ms = time.Millisecond

// F11: a prompt is readable while the job waits, and once.
func TestPromptShows(t *testing.T) {
	play(t, func(p *player) {
		p.write("text\r\nContinue? [y/N] ")
		p.shows("text\n")
		p.pass(199 * ms)
		p.shows("text\n")
		p.pass(1 * ms)
		p.shows("text\nContinue? [y/N] ")
		p.write("y\r\n")
		p.write("got y\r\n")
		p.shows("text\nContinue? [y/N] y\ngot y\n")
		p.ends("text\nContinue? [y/N] y\ngot y\n")
	})
}

// F11, M05: dots that are never 200 ms apart grow all the same.
func TestDotsGrow(t *testing.T) {
	play(t, func(p *player) {
		for range 25 {
			p.write(".")
			p.pass(50 * ms)
		}
		if n := p.out.Len(); n < 20 {
			p.Errorf("%d of 25 dots show", n)
		}
		p.write("\n")
		p.ends(".........................\n")
	})
}

func TestLatestIsFromTheFirstByte(t *testing.T) {
	play(t, func(p *player) {
		for range 5 {
			p.write("x")
			p.shows("")
			p.pass(99 * ms)
		}
		p.pass(4 * ms)
		p.shows("")
		p.pass(1 * ms)
		p.shows("xxxxx")
	})
}

// Each version of a line has its own clock.
func TestClockStartsWithTheLine(t *testing.T) {
	play(t, func(p *player) {
		for range 10 {
			p.write("x")
			p.pass(150 * ms)
			p.write("\ny")
			p.pass(150 * ms)
			p.write("\n")
		}
		want := bytes.Repeat([]byte("x\ny\n"), 10)
		p.shows(string(want))
	})
}

func TestNothingIsDue(t *testing.T) {
	for _, raw := range []string{"", "line\n", "line\r\n", "\x1b[1", "\x1b]0;t", "10%\r20%", "10%\r", "\r", "a\b", "\xe2\x94", "x\x1b[1G\x1b[K"} {
		play(t, func(p *player) {
			p.write(raw)
			if at := p.f.ShowAt(); !at.IsZero() {
				p.Errorf("%q: text is due at %v, want never", raw, at)
			}
			before := p.out.String()
			show(p, p.f)
			p.shows(before)
		})
	}
}

func TestNothingIsDueAfterShowAndClose(t *testing.T) {
	play(t, func(p *player) {
		p.write("a")
		show(p, p.f)
		if at := p.f.ShowAt(); !at.IsZero() {
			p.Errorf("after Show: due at %v", at)
		}
		p.write("b")
		closeFilter(p, p.f)
		if at := p.f.ShowAt(); !at.IsZero() {
			p.Errorf("after Close: due at %v", at)
		}
	})
}

// F21: half a character does not show, also when it is slow to come.
func TestSlowCharacter(t *testing.T) {
	play(t, func(p *player) {
		p.write("a\xe2\x94")
		p.pass(300 * ms)
		p.shows("a")
		p.write("\x80\n")
		p.ends("a─\n")
	})
}

// A bar leaves one line however slow it is.
func TestProgressLeavesOneLine(t *testing.T) {
	for _, pause := range []time.Duration{10 * ms, 100 * ms, 300 * ms, 2000 * ms} {
		play(t, func(p *player) {
			for _, s := range []string{" 0%\r", "50%\r", "100%\r", "\n", "done\n"} {
				p.write(s)
				p.pass(pause)
			}
			p.ends("100%\ndone\n")
		})
	}
}

// When CR comes before the text, the first frame shows if the second is late.
func TestProgressWithCRFirst(t *testing.T) {
	for pause, want := range map[time.Duration]string{
		100 * ms: "100%\n",
		300 * ms: " 0%\n100%\n",
	} {
		play(t, func(p *player) {
			for _, s := range []string{"\r 0%", "\r50%", "\r100%", "\n"} {
				p.write(s)
				p.pass(pause)
			}
			p.ends(want)
		})
	}
}

// What was shown is not repeated where the line begins with it.
func TestShownTextIsNotRepeated(t *testing.T) {
	for _, c := range []struct{ name, shown, then, want string }{
		{"answer", "Continue? ", "yes\r\n", "Continue? yes\n"},
		{"end of the line", "Continue? ", "\r\n", "Continue? \n"},
		{"end of the stream", "Continue? ", "", "Continue? "},
		{"redraw", "$ ", "\r$ ls\r\n", "$ ls\n"},
		{"redraw of nothing new", "$ ", "\r$ ", "$ "},
		{"redraw with colours", "$ ", "\r\x1b[K\x1b[1m$ \x1b[mls\r\n", "$ ls\n"},
		{"redraw twice", "$ ", "\r$ l\r$ ls\r\n", "$ ls\n"},
		{"bar behind its name", "Fetching: ", "\rFetching: 10%\rFetching: 100%\n", "Fetching: 100%\n"},
		{"another text", "Loading", "\rReady\n", "Loading\nReady\n"},
		{"another text at the end of the stream", "Loading", "\rReady", "Loading\nReady"},
		{"shorter", "100 left", "\r1\n", "100 left\n1\n"},
		{"only CR", "Loading", "\r", "Loading"},
		{"nothing left", "Loading", "\rx\b\n", "Loading\n\n"},
		{"Node.js redraw", "> ", "\x1b[1G\x1b[0J> ab\x1b[5G\r\n", "> ab\n"},
		{"Node.js erases it", "Loading", "\x1b[2K\x1b[1G\r\nReady", "Loading\n\nReady"},
		{"Node.js erases it at the end of the stream", "Loading", "\x1b[2K\x1b[1G", "Loading\n"},
		{"BS stops at it", "abc", "\b\b\bxy\bz\n", "abcxz\n"},
		{"erased echo", "$ l", "x\b \bs\r\n", "$ ls\n"},
		{"next line is new", "a", "b\n\rab\n", "ab\nab\n"},
		{"screen", "a", "\x1b[5;1Hb\n", "a\nb\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(p *player) {
				p.write(c.shown)
				p.pass(time.Second)
				p.shows(c.shown)
				for _, b := range []byte(c.then) {
					p.write(string(b))
				}
				p.ends(c.want)
			})
		})
	}
}

// Node.js erases its spinner before a question: the question shows.
func TestPromptBehindSpinnerShows(t *testing.T) {
	play(t, func(p *player) {
		for range 10 {
			for _, s := range []string{"⠙", "⠹", "⠸"} {
				p.write("\x1b[1G\x1b[0K" + s)
				p.pass(80 * ms)
			}
		}
		p.shows("")
		p.write("\x1b[1G\x1b[0KOk to proceed? (y) ")
		p.pass(200 * ms)
		p.shows("Ok to proceed? (y) ")
		// Each key draws the question again.
		p.write("\x1b[1G\x1b[0JOk to proceed?")
		p.pass(time.Second)
		p.write(" (y) y")
		p.pass(time.Second)
		p.shows("Ok to proceed? (y) y")
		p.write("\r\n")
		p.ends("Ok to proceed? (y) y\n")
	})
}

// A line that is shown piece by piece, longer than what is remembered of it.
func TestLongShownLine(t *testing.T) {
	play(t, func(p *player) {
		for range 100 {
			p.write("0123456789012345678901234567890123456789012345678901234567890123456789")
			p.pass(200 * ms)
		}
		if n := p.out.Len(); n != 7000 {
			p.Errorf("%d bytes show, want 7000", n)
		}
		p.write("\rend\n")
		if got := p.out.String()[7000:]; got != "\nend\n" {
			p.Errorf("behind them: %q", got)
		}
	})
}
