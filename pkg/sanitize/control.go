package sanitize

// c0 does what a control character below 20 asks for, and DEL.
func (f *Filter) c0(b byte) {
	switch b {
	case '\n':
		f.newline()
	case '\r':
		f.line.cr = true
	case '\t':
		f.text([]byte{'\t'})
	case bs:
		f.backspace()
	}
}

// c1 does what a control character of 80-9F asks for. ESC and a byte of 30-7E
// comes here as 70-BE: those outside of C1 are private or independent functions.
func (f *Filter) c1(b byte) {
	f.state = ground
	switch b {
	case '[' + 0x40:
		f.enter(inCSI)
	case ']' + 0x40:
		f.enter(inString)
		f.osc = true
	case 'P' + 0x40, 'X' + 0x40, '^' + 0x40, '_' + 0x40:
		f.enter(inString)
		f.osc = false
	case 'D' + 0x40, 'E' + 0x40, 'M' + 0x40, '8' + 0x40: // IND, NEL, RI, DECRC
		f.row()
	}
}
