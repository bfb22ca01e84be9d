module github.com/fsbench/fsbench

go 1.26
