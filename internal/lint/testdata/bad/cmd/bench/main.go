// Command bench may exit, and is longer than a file of this example may be.
package main // want: size

import (
	"fmt"
	"os"
)

func main() {
	fmt.Println("bench")
	os.Exit(0)
}

// line 1 of a file that is too long
// line 2 of a file that is too long
// line 3 of a file that is too long
// line 4 of a file that is too long
// line 5 of a file that is too long
// line 6 of a file that is too long
// line 7 of a file that is too long
// line 8 of a file that is too long
// line 9 of a file that is too long
// line 10 of a file that is too long
// line 11 of a file that is too long
// line 12 of a file that is too long
// line 13 of a file that is too long
// line 14 of a file that is too long
// line 15 of a file that is too long
// line 16 of a file that is too long
// line 17 of a file that is too long
// line 18 of a file that is too long
// line 19 of a file that is too long
// line 20 of a file that is too long
// line 21 of a file that is too long
// line 22 of a file that is too long
// line 23 of a file that is too long
// line 24 of a file that is too long
// line 25 of a file that is too long
// line 26 of a file that is too long
// line 27 of a file that is too long
// line 28 of a file that is too long
// line 29 of a file that is too long
// line 30 of a file that is too long
// line 31 of a file that is too long
// line 32 of a file that is too long
// line 33 of a file that is too long
// line 34 of a file that is too long
// line 35 of a file that is too long
// line 36 of a file that is too long
// line 37 of a file that is too long
// line 38 of a file that is too long
// line 39 of a file that is too long
// line 40 of a file that is too long
// line 41 of a file that is too long
// line 42 of a file that is too long
// line 43 of a file that is too long
// line 44 of a file that is too long
// line 45 of a file that is too long
// line 46 of a file that is too long
// line 47 of a file that is too long
// line 48 of a file that is too long
// line 49 of a file that is too long
// line 50 of a file that is too long
