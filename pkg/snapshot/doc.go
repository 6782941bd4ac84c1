// Package snapshot turns a home directory into a tar stream in one zstd frame
// and lays such a stream over a home directory again.
//
// # Format
//
// Names are relative to the home and sorted within each directory, parents
// first; the home itself has no entry. Headers are POSIX (PAX): times to the
// nanosecond, names of any bytes and length, user.* attributes in the
// SCHILY.xattr records of GNU tar. Owners are zero. Further names of a file are
// hard links. Sockets, FIFOs and devices are left out. Restore also takes what
// GNU tar and zstd write, with a window of 64 MiB at most.
//
// # Rules of safety
//
// Save and restore run in the unrestricted server while jobs of the same user
// change the tree, and the archive may come from anywhere. Therefore:
//
//   - Every name is looked up from the descriptor of a directory below the
//     home, one component at a time, and never through a link: see tree.
//   - Every open is non-blocking, and the type is that of the open file.
//   - Restore resolves links in the path of an entry itself. One that is
//     absolute or climbs out of the home is refused, though links as entries
//     are kept literally, wherever they point.
//   - Content goes only into files that restore has made: under a free name,
//     or under a temporary one that then replaces what has the name.
//   - The state directory is neither saved nor written.
//
// A live tree does not stop a save. What vanished or can not be read is left
// out and counted, and the content of a file always has the length its header
// promises. Restore is no transaction: what was written before a failure stays,
// but no part of a file does.
package snapshot
