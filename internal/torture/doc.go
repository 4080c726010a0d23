// Package torture attacks the library: worker processes take locks in every way there is, while their servers, networks
// and processes fail at random, and a checker judges from outside what they wrote down. It has tests only.
package torture
