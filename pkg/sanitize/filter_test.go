package sanitize_test

import (
	"strings"
	"testing"
)

// cases are streams and the text they give. The marks name the entry of the field
// reports that a row repeats.
var cases = []struct {
	name, raw, want string
}{
	{"empty", "", ""},
	{"plain", "hello\nworld\n", "hello\nworld\n"},
	{"no newline at the end", "hello\nwor", "hello\nwor"},
	{"tab", "a\tb\n", "a\tb\n"},
	{"blank lines", "\n\n\r\n\r\n", "\n\n\n\n"},
	{"upstream table: OSC with BEL", "\x1b]0;title\x07text\n", "text\n"},

	// CR and BS.
	{"F24 M01 CRLF through a terminal", "HTTP/1.1 200 OK\r\r\nA: b\r\r\n", "HTTP/1.1 200 OK\nA: b\n"},
	{"F24 CRLF", "HTTP/1.1 200 OK\r\nA: b\r\n", "HTTP/1.1 200 OK\nA: b\n"},
	{"many CR before LF", "a\r\r\r\r\nb\n", "a\nb\n"},
	{"lone CR", "10%\r20%\r30%\n", "30%\n"},
	{"lone CR, shorter text", "long text\rab\n", "ab\n"},
	{"CR at the end of the stream", "10%\r20%\r", "20%"},
	{"CR at the start of a line", "\r\rabc\n", "abc\n"},
	{"CR and nothing but sequences before LF", "abc\r\x1b[K\x1b[0m\n", "abc\n"},
	{"CR and erase before text", "10%\r\x1b[K20%\n", "20%\n"},
	{"CR, NUL, LF", "abc\r\x00\n", "abc\n"},
	{"CR and TAB", "abc\r\td\n", "\td\n"},
	{"CR and CRLF", "10%\r20%\r\nnext\r\n", "20%\nnext\n"},
	{"BS", "abd\bc\n", "abc\n"},
	{"BS erases a character, not a byte", "a界\bb\n", "ab\n"},
	{"BS at the start of a line", "a\n\b\b\bb\n", "a\nb\n"},
	{"BS more than there is", "ab\b\b\b\b\bc\n", "c\n"},
	{"BS behind CR", "ab\r\bc\n", "c\n"},
	{"BS behind CR before LF", "ab\r\b\b\n", "ab\n"},
	{"echo of an erased character", "lss\b \b\n", "ls\n"},
	{"overstrike", "N\bNA\bAM\bME\bE _\bx\n", "NAME x\n"},
	{"spinner with BS", "wait |\b/\b-\b\\\b done\n", "wait  done\n"},
	{"F32 spinner with CR", "\r1\r22\r333\r4\n", "4\n"},
	{"F11 prompt and answer", "Continue? [y/N] y\r\ngot y\r\n", "Continue? [y/N] y\ngot y\n"},

	// What vanishes.
	{"F23 NUL", "a\x00b\nhello\n", "ab\nhello\n"},
	{"C0 and DEL", "a\x01\x02\x03\x04\x05\x06\x07\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1c\x1d\x1e\x1f\x7fb\n", "ab\n"},
	{"C1 in UTF-8", "a\u0080\u0081\u0084\u0085\u0088\u008d\u0099\u009a\u009cb\n", "ab\n"},
	{"no-break space is text", "a\u00a0b\n", "a\u00a0b\n"},
	{"colours", "\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m\n", "red and blue\n"},
	{"colours with colons", "\x1b[38:2::1:2:3mx\x1b[4:3my\n", "xy\n"},
	{"CSI with intermediate", "a\x1b[2 qb\x1b[!pc\n", "abc\n"},
	{"private CSI", "\x1b[?25l\x1b[?2004ha\x1b[?2004l\x1b[>c\x1b[=3u\n", "a\n"},
	{"CSI of 8 bits", "a\u009b31mb\n", "ab\n"},
	{"moves within the line, erase", "a\x1b[Kb\x1b[2Kc\x1b[3Cd\x1b[2De\x1b[10Gf\x1b[1Pg\x1b[4@h\n", "abcdefgh\n"},
	{"moves of a program that draws no screen", "a\x1b[Ab\x1b[Bc\x1b[Hd\n", "abcd\n"},
	{"charset", "\x1b(Ba\x1b)0b\x1b%Gc\x1b#8d\x1b Fe\n", "abcde\n"},
	{"two bytes", "a\x1b7b\x1b8c\x1b=d\x1b>e\x1bcf\x1bMg\x1bDh\x1bEi\x1b~j\x1b\\k\n", "abcdefghijk\n"},
	{"function key of the console", "\x1bOP\n", "P\n"},

	// Strings.
	{"F27 title, ST", "\x1b]0;t\x1b\\A\n", "A\n"},
	{"F27 hyperlink, BEL", "\x1b]8;;http://x\aB\x1b]8;;\a\n", "B\n"},
	{"F27 M04 DCS", "\x1bPq1;2\x1b\\C\n", "C\n"},
	{"F27 M02 OSC never ended", "\x1b]0;never ended\nD\nE\n", "\nD\nE\n"},
	{"F27 APC", "\x1b_x\x1b\\F\n", "F\n"},
	{"PM and SOS", "\x1b^x\x1b\\G\x1bXy\x1b\\H\n", "GH\n"},
	{"strings of 8 bits", "a\u009d0;t\u009cb\u0090q\u009cc\u009fx\u009cd\u009ey\u009ce\u0098z\u009cf\n", "abcdef\n"},
	{"string of 8 bits, ST of 7", "a\u009d0;t\x1b\\b\n", "ab\n"},
	{"BEL does not end DCS", "a\x1bPx\ay\x1b\\b\n", "ab\n"},
	{"CAN and SUB", "a\x1b]0;x\x18b\x1b[1\x1ac\x1b\x18d\x1bPx\x1ae\n", "abcde\n"},
	{"ESC ESC \\ ends an OSC", "a\x1b]0;t\x1b\x1b\\b\n", "ab\n"},
	{"ESC in a string starts a sequence", "a\x1b]0;t\x1b[31mb\n", "ab\n"},
	{"passthrough of a multiplexer", "a\x1bPtmux;\x1b\x1b]0;t\a\x1b\\b\n", "ab\n"},
	{"UTF-8 in a title", "\x1b]0;é界\u201cx\aa\n", "a\n"},
	{"CRLF in a string", "a\x1b]0;t\r\nb\n", "a\nb\n"},
	{"F29 shell integration", "\x1b]133;A\a\x1b]633;P;Cwd=/a b\\x3b TTY=not a tty\a$ \x1b]133;B\a\x1b]3008;start=1;user=x\x1b\\false\r\n\x1b]133;D;1\a", "$ false\n"},

	// Sequences that do not end well.
	{"ESC ESC [", "a\x1b\x1b[31mb\n", "ab\n"},
	{"ESC in CSI", "a\x1b[3\x1b[31mb\n", "ab\n"},
	{"M02 LF in CSI", "\x1b[\nabc\n", "\nbc\n"},
	{"LF in CSI, parameters go on", "a\x1b[3\n1mb\n", "a\nb\n"},
	{"LF behind ESC", "a\x1b\nbc\n", "a\nc\n"},
	{"CR in CSI", "a\x1b[3\r1mb\n", "b\n"},
	{"BS in CSI", "ax\x1b[3\b1mb\n", "ab\n"},
	{"DEL in CSI", "a\x1b[3\x7f1mb\n", "ab\n"},
	{"character in CSI", "a\x1b[3éb\n", "aéb\n"},
	{"character behind ESC", "a\x1béb\n", "aéb\n"},
	{"C1 in CSI", "a\x1b[3\u009b1mb\n", "ab\n"},
	{"unfinished at the end", "a\x1b[31", "a"},
	{"unfinished string at the end", "a\x1b]0;t", "a"},
	{"ESC at the end", "a\x1b", "a"},

	// UTF-8.
	{"F21 box", "┌" + strings.Repeat("─", 200) + "┐\r\n", "┌" + strings.Repeat("─", 200) + "┐\n"},
	{"F22 text", "héllo wörld ✅\n", "héllo wörld ✅\n"},
	{"beyond the basic plane", "a\U0001F680b\n", "a\U0001F680b\n"},
	{"lone bytes", "a\xffb\x80c\xfe\xfe\n", "a\uFFFDb\uFFFDc\uFFFD\uFFFD\n"},
	{"raw C1 is no character", "a\x9b31mb\n", "a\uFFFD31mb\n"},
	{"cut character before ASCII", "\xe2\x94a\n", "\uFFFDa\n"},
	{"cut character before LF", "\xe2\x94\n", "\uFFFD\n"},
	{"cut character before ESC", "\xf0\x9f\x9a\x1b[mb\n", "\uFFFDb\n"},
	{"cut character before a whole one", "\xe2\x94é\n", "\uFFFDé\n"},
	{"maximal subparts", "\xf1\x80\x80\xe1\x80\xc2b\x80\n", "\uFFFD\uFFFD\uFFFDb\uFFFD\n"},
	{"overlong and surrogates", "\xc0\xaf\xe0\x80\xaf\xed\xa0\x80\xf4\x90\x80\x80\n", strings.Repeat("\uFFFD", 2+3+3+4) + "\n"},
	{"F21 cut at the end", "a\xe2\x94", "a\uFFFD"},
	{"cut at the end behind CR", "abc\r\xe2\x94", "\uFFFD"},
	{"U+FFFD itself", "a\uFFFDb\n", "a\uFFFDb\n"},

	// Redraws without CR.
	{"Node.js, erase to the right", "\x1b[1G\x1b[0K⠙\x1b[1G\x1b[0K⠹\x1b[1G\x1b[0Kdone\n", "done\n"},
	{"Node.js, erase the line", "a\x1b[2K\x1b[1Gb\x1b[2K\x1b[Gc\n", "c\n"},
	{"Node.js, erase the display below", "> a\x1b[1G\x1b[0J> ab\x1b[5G\r\n", "> ab\n"},
	{"first column alone", "ab\x1b[1Gc\n", "abc\n"},
	{"erase alone", "ab\x1b[2Kc\x1b[5G\n", "abc\n"},
	{"erased before LF", "a\nb\x1b[2K\x1b[1G\nc\x1b[G\x1b[J", "a\n\n"},

	// Screens.
	{"alternate screen", "$ vi\r\n\x1b[?1049h\x1b[H\x1b[2Jone\x1b[2;1Htwo\x1b[3d~\x1b[?1049l$ ", "$ vi\none\ntwo\n~\n$ "},
	{"alternate screen within a line", "a\x1b[?1049hb\x1b[?1049lc\n", "a\nb\nc\n"},
	{"addressed row", "a\x1b[5;1Hb\x1b[6;1fc\x1b[7dd\n", "a\nb\nc\nd\n"},
	{"clear", "a\n\x1b[H\x1b[2J\x1b[3Jb\n", "a\nb\n"},
	{"home on a cleared display", "\x1b[H\x1b[2Ja\r\nb\x1b[Hc\r\nd", "a\nb\nc\nd"},
	{"relative rows", "\x1b[2Ja\x1b[Bb\x1b[Ac\x1b[Ed\x1b[Fe\x1bDf\x1bMg\x1bEh", "a\nb\nc\nd\ne\nf\ng\nh"},
	{"moves within a row", "\x1b[2Ja\x1b[5Cb\x1b[20Gc \x1b[2Cd\x1b[3De\x1b[2;1H\x1b[4Cf\r\x1b[Cg", "a b c de\ng"},
	{"Node.js on a screen", "\x1b[2Ja\x1b[2K\x1b[1Gb\x1b[1G\x1b[Kc\n", "c\n"},
	{"bar in the last row", "\x1b[1;23r\x1b7\x1b[24;0fProgress: [ 20%]\x1b8Unpacking a\r\n", "Progress: [ 20%]\nUnpacking a\n"},
}

func TestText(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := clean(t, c.raw); got != c.want {
				t.Errorf("text of %q\n got %q\nwant %q", c.raw, got, c.want)
			}
		})
	}
}

// Each row at every split into two and at every size of chunks.
func TestTextAtEverySplit(t *testing.T) {
	for _, c := range cases {
		for i := range len(c.raw) {
			if got := clean(t, c.raw[:i], c.raw[i:]); got != c.want {
				t.Errorf("%s: text of %q and %q\n got %q\nwant %q", c.name, c.raw[:i], c.raw[i:], got, c.want)
			}
			if got := inChunks(t, []byte(c.raw), i+1); got != c.want {
				t.Errorf("%s: text in chunks of %d\n got %q\nwant %q", c.name, i+1, got, c.want)
			}
		}
	}
}

// Every function of ECMA-48 between two words.
func TestSequencesLeaveNoTrace(t *testing.T) {
	var sequences []string
	for b := byte('@'); b <= '~'; b++ {
		sequences = append(sequences, "\x1b["+string(b), "\x1b[1;1"+string(b), "\x1b[?7"+string(b), "\x1b[> "+string(b))
	}
	for b := byte('0'); b <= '~'; b++ {
		for i := byte(' '); i < '0'; i++ {
			sequences = append(sequences, "\x1b"+string(i)+string(b))
		}
		if !strings.ContainsRune("[]PX^_", rune(b)) {
			sequences = append(sequences, "\x1b"+string(b))
		}
	}
	for _, s := range sequences {
		if got, want := clean(t, "a"+s+"b\n"), "ab\n"; got != want {
			t.Errorf("a%qb gives %q, want %q", s, got, want)
		}
	}
}
