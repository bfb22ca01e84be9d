# Aliases for the commands that the CI runs too; anything with a condition is Go.

GOLANGCI = go tool -modfile=tools/go.mod golangci-lint

.PHONY: check fmt vet lint arch test race golden soak kills same zoo bench tidy-check

check: fmt vet lint arch test

fmt:
	gofmt -d .

vet:
	GOOS=linux go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

lint:
	$(GOLANGCI) run ./...

arch:
	go test ./internal/arch

test:
	go test ./...

race:
	go test -race ./...

golden:
	UPDATE_GOLDEN=1 go test ./...

soak:
	go run ./cmd/fsbench run --profile soak --sandbox mem

kills:
	FSBENCH_KILLS=200 go test -count=1 -timeout 60m -v -run '^TestKilled$$' ./cmd/fsbench

same:
	FSBENCH_SAME=10 go test -count=1 -timeout 60m -v -run '^TestSameFindings$$' ./cmd/fsbench

zoo:
	go run ./cmd/fsbench zoo

bench:
	go test -run '^$$' -bench . -benchtime 1s ./...

tidy-check:
	go mod tidy -diff
	go -C tools mod tidy -diff
