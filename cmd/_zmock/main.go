package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/rivumi/rivumi/bench/mock"
)

func main() {
	s, _ := mock.Start()
	n, _ := strconv.Atoi(os.Args[1])
	tok := 5
	if len(os.Args) > 2 { tok, _ = strconv.Atoi(os.Args[2]) }
	s.Reset(mock.Plan{Steps: n, Command: "echo step %d", Tokens: tok})
	fmt.Println(s.URL)
	select {}
}
