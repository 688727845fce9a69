module github.com/rivumi/rivumi

go 1.26.7
