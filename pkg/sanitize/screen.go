package sanitize

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

// gap takes a move within the row. On a screen it stands between two words.
func (f *Filter) gap() {
	if !f.screen || f.line.cr {
		return
	}
	before := f.held()
	if len(before) == 0 {
		before = f.line.seen
	}
	if n := len(before); n > 0 && before[n-1] != ' ' {
		f.text([]byte{' '})
	}
}
