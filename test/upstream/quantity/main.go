// Prints how Kubernetes parses a table of quantities, as the JSON of test/golden/quantity.json:
//
//	go run . > ../../golden/quantity.json
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

type row struct {
	Input     string `json:"input"`
	Accepted  bool   `json:"accepted"`
	Canonical string `json:"canonical,omitempty"`
	Format    string `json:"format,omitempty"`
	Value     string `json:"value,omitempty"`
	Milli     string `json:"milli,omitempty"`
}

func inputs() []string {
	numbers := []string{"0", "1", "7", "10", "12", "100", "0.5", "1.5", "1.25", "0.001", "1000", "1023", "1024", "1025", "1536", "2048",
		"123456789", "999.999", "-1", "-2048", "0.0000000001", "1.0000000001"}
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e0", "e3", "E-3", "e-1"}
	edges := []string{"", " ", ".", "+", "-", "m", "Ki", "i", "1i", "1 Mi", " 1", "1 ", "1.", ".5", "+.5", "-.5", "+1", "+0", "-0", "00", "007", "1.500",
		"1.2.3", "1..2", "--1", "+-1", "1e", "1E", "1e+", "1e-", "1e+3", "1E+3", "1e03", "1e3.5", "1ee3", "1e3m", "1KI", "1ki", "1K", "1mi", "1Mm", "1MiB",
		"1B", "0x10", "1_000", "1,5", "NaN", "Infinity", "-Infinity", "null", "1\n", "١", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "-9223372036854775809", "99999999999999999999", "9Ei", "7Ei", "8Ei", "-8Ei", "-9Ei", "10Ei", "9999999999999999Ki",
		"1000E", "1e20", "1e21", "12e24", "1e-9", "1e-10", "1e-30", "0e50", "0.1n", "-0.1n", "1.1n", "-1.1n", "0.1Ki", "0.0001Ki", "-0.0001Ki", "1.1Ki",
		"1023.9999999999Ki", "0.9999999999", "123456789012345678.123456789", "0.123456789", "0.1234567891", "1.23456789012345678901234567890",
		"1000000000000000000000", "1048576", "1048576Ki", "100000000000000000000Mi", "1e9", "3.1e1", "3.1E2", "4.2e5", "314159e-5", "1Ek", "1E1", "1E01", "1e1e1"}
	all := edges
	for _, number := range numbers {
		for _, suffix := range suffixes {
			all = append(all, number+suffix)
		}
	}
	return all
}

func main() {
	rows := []row{}
	for _, input := range inputs() {
		quantity, err := resource.ParseQuantity(input)
		if err != nil {
			rows = append(rows, row{Input: input})
			continue
		}
		// String() may return the text as written; this is the canonical form.
		number, suffix := quantity.CanonicalizeBytes(nil)
		rows = append(rows, row{
			Input:     input,
			Accepted:  true,
			Canonical: string(number) + string(suffix),
			Format:    string(quantity.Format),
			Value:     fmt.Sprint(quantity.Value()),
			Milli:     fmt.Sprint(quantity.MilliValue()),
		})
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(rows); err != nil {
		panic(err)
	}
}
