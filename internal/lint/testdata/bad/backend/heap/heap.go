package heap // want: package-comment

import (
	"fmt"
	"os"
)

// It is a heap.
type Heap struct{} // want: exported-doc

func (Heap) Size() int { return limit } // want: exported-doc

// Sizes are covered by the comment of their group.
const (
	Small = 1
	Large = 2
)

const (
	Bare  = 3 // a comment on the line will do
	limit = 4
)

// Print writes to the console and ends the program.
func Print() { // want: size
	fmt.Println("heap")             // want: command-line
	fmt.Fprintln(os.Stderr, "heap") // want: command-line
	println("heap")                 // want: command-line
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	_ = fmt.Sprint("a line")
	os.Exit(1) // want: command-line
}
