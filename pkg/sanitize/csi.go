package sanitize

// csi is what is known of a control sequence. Only the first parameter matters to
// the text, and none above 9999.
type csi struct {
	param   int
	private bool // begins with '?'
	more    bool // the first parameter is over
	other   bool // has intermediates or is private in another way
}

// csiByte takes a printable byte of a control sequence.
func (f *Filter) csiByte(b byte) {
	c := &f.csi
	switch {
	case b >= '@':
		f.state = ground
		if !c.other {
			f.csiEnd(b)
		}
	case b >= '0' && b <= '9':
		if !c.more {
			c.param = min(c.param*10+int(b-'0'), 9999)
		}
	case b == ';' || b == ':':
		c.more = true
	case b == '?' && f.size == 1:
		c.private = true
	default:
		c.other = true
	}
}

// csiEnd does what the sequence asks for, as far as it is about lines.
func (f *Filter) csiEnd(final byte) {
	if f.csi.private {
		f.mode(final)
		return
	}
	param := f.csi.param
	switch final {
	case 'A', 'B', 'E', 'F', 'e': // CUU, CUD, CNL, CPL, VPR
		f.row()
	case 'H', 'f', 'd': // CUP, HVP, VPA
		f.screen = f.screen || param > 1
		f.row()
	case 'r': // DECSTBM
		f.screen = true
	case 'C', 'a': // CUF, HPR
		f.gap()
	case 'G', '`': // CHA, HPA
		f.column(param)
	case 'J', 'K': // ED, EL
		f.erase(final, param)
	}
}

// column takes a move to a column.
func (f *Filter) column(n int) {
	f.line.column = n < 2
	switch {
	case !f.line.column:
		f.gap()
	case f.line.erased:
		f.restart()
	}
}

// erase takes ED and EL. With the cursor in its first column the line is empty
// now; what a program erases otherwise stays in the text.
func (f *Filter) erase(final byte, param int) {
	all := param == 2
	if final == 'J' && param >= 2 {
		f.screen = true
	}
	f.line.erased = f.line.erased || all
	if f.line.column && (all || param == 0) {
		f.restart()
	}
}
