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
	case 'G', '`': // CHA, HPA
		f.line.column = param < 2
		f.line.back = f.line.back || f.line.column && f.line.erased
	case 'J', 'K': // ED, EL
		f.erase(final, param)
	}
}

// erase takes ED and EL. With the cursor in the first column of the line it is
// empty now; what a program erases otherwise stays in the text.
func (f *Filter) erase(final byte, param int) {
	all := param == 2
	if final == 'J' && param >= 2 {
		f.screen = true
	}
	f.line.erased = f.line.erased || all
	if f.line.column && (all || param == 0) {
		f.line.back = true
	}
}

// mode takes DECSET and DECRST: the alternate screen is a page of its own.
func (f *Filter) mode(final byte) {
	switch f.csi.param {
	case 47, 1047, 1049:
	default:
		return
	}
	if final == 'h' || final == 'l' {
		f.screen = true
		f.row()
		f.screen = final == 'h'
	}
}

// row takes a move of the cursor to another row, or to a row that is not known.
// On a screen it ends the line if there is text in it.
func (f *Filter) row() {
	if f.screen && (len(f.held()) > 0 || f.line.open()) {
		f.newline()
	}
}
