// Package sanitize turns the bytes of a terminal into plain text: streaming,
// with bounded memory, and with the same result for every split of the input.
//
// # The parser
//
// It follows the parser for DEC's VT500 series by Paul Williams
// (https://vt100.net/emu/dec_ansi_parser); the grammar is ECMA-48, the control
// characters of 8 bits are taken in their UTF-8 form, U+0080 to U+009F.
// Only what is text or moves to another line needs to be told apart here,
// so the entry, parameter, intermediate and ignore states of a kind are one.
//
//	 text, C0: line model
//	  +---+
//	  |   v
//	+--------+      ESC       +--------+     20-2F     +--------------+
//	|        | -------------> |        | ------------> | intermediate |--+ 20-2F
//	|        |                | escape |               +--------------+<-+
//	|        | <------------- |        |                      | 30-7E
//	|        |  30-7E, but    +--------+                      v
//	|        |  [ ] P X ^ _    |      |                     ground
//	|        |                 | [    | ] P X ^ _
//	|        |                 v      |
//	| ground |  U+009B   +--------+   |
//	|        | --------> |  csi   |--+| 20-3F
//	|        | <-------- +--------+<-+|
//	|        |   40-7E                v
//	|        |  U+0090 98 9D 9E 9F   +--------+
//	|        | --------------------> | string |--+ anything
//	|        | <-------------------- +--------+<-+
//	+--------+  ESC \, U+009C, BEL (OSC only), LF (which still ends its line)
//
// From every state CAN and SUB lead to ground, and so do 4 KiB without an end and a
// character that cannot be part of the sequence and then is text. ESC and the C1
// introducers start a sequence anew from every state.
//
// C0 inside escape, intermediate and csi acts at once and the sequence goes on,
// as on the VT500: a line feed in an unfinished CSI ends its line.
//
// Why no library: github.com/charmbracelet/x/ansi (v0.11.9) has a parser of the same
// descent. It calls back for each character, at a fifteenth of the speed of the
// scan here; it builds its transition table when the process starts, which every
// short process of ours would pay; its strings run on over line feeds without a
// bound, and behind a cut character it loses text. What remains, CR, BS and early
// text, is the larger half of the work and would have to be done here all the same.
//
// # The line model
//
//   - CR* LF is LF. A lone CR starts the line anew as soon as text follows.
//   - BS erases the last character that is still held.
//   - Every sequence goes without a trace, and so does every C0 but TAB and LF,
//     DEL and C1. Bytes that are not UTF-8 become U+FFFD, one for each maximal
//     subpart of a character.
//   - A line that is erased (EL, ED) with the cursor in its first column (CHA) is
//     empty then. This is how Node.js draws a line again.
//   - At the end of the stream the last state of the line is kept.
//
// # Text without a newline
//
// A prompt has to be seen while its line is unfinished, so held text becomes
// visible after [Silence] without input and [Latest] after its first byte. A line
// that CR rewrites, or is about to, is held until it ends: a progress bar leaves
// one line. The log only grows, so what was shown stays, and a line that is
// started anew after a part of it was shown ends in one of two ways:
//
//   - its text begins with what was shown (readline draws a prompt again, a bar
//     was first printed without its figures): only the rest is added;
//   - its text is another one: the shown text becomes a line of its own, and the
//     new text follows on the next.
//
// So without BS the lines of a stream are the same at every timing, but for
// additional lines that had been shown before they were overwritten. BS stops at
// text that was shown.
//
// # Full-screen programs
//
// A program that enters the alternate screen, clears the display, sets a
// scrolling region or addresses a row below the first draws on a screen. From
// there on, until it leaves the alternate screen, a move to another row ends the
// line if it holds text, and a move to the right within the row is a space, so that
// words do not run together. The text comes in the order in which it was drawn.
package sanitize
