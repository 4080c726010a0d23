package sqllock

import (
	"strings"
	"testing"
)

// show lexes text into one word a token: w(ord), n(ame), s(tring), #(number), p(aram), v(ar), or the symbol itself.
func show(d Dialect, r reading, text string) string {
	l := lexer{dialect: d, reading: r, text: text}
	var out []string
	var t token
	for l.next(&t); t.kind != tokenEnd; l.next(&t) {
		if t.kind == tokenSymbol {
			out = append(out, t.text)
			continue
		}
		out = append(out, string("?wns#pv"[t.kind])+"["+t.text+"]")
	}
	if l.broken {
		out = append(out, "broken")
	}
	return strings.Join(out, " ")
}

type lexed struct{ text, want string }

func checkTokens(t *testing.T, d Dialect, r reading, tests []lexed) {
	t.Helper()
	for _, test := range tests {
		if got := show(d, r, test.text); got != test.want {
			t.Errorf("%v %+v %q\n got %s\nwant %s", d, r, test.text, got, test.want)
		}
	}
}

func TestPostgresTokens(t *testing.T) {
	checkTokens(t, DialectPostgres, reading{}, []lexed{
		{"", ""}, {"a.b", "w[a] . w[b]"}, {"a$b$ c", "w[a$b$] w[c]"}, {"_é1", "w[_é1]"}, {"\xff\x00a", "w[\xff] \x00 w[a]"},
		{"'a' 'b''c' ''", "s[a] s[b''c] s[]"}, {`'a\' b '`, `s[a\] w[b] s[] broken`}, {"'open", "s[open] broken"}, {"'", "s[] broken"},
		{`E'a\'b' e'\\' E''''`, `s[a\'b] s[\\] s['']`}, {"E'a'\n'\\'b' c", "s[a'\n'\\'b] w[c]"}, {"E'a' '\\'", `s[a] s[\]`}, {"E'a'--x\n--y\n\t'\\'b'", "s[a'--x\n--y\n\t'\\'b]"},
		{"E'a'\r'\\''", "s[a'\r'\\']"}, {"E'a' -- x", "s[a]"}, {"E'a'\n/* c */'\\'", "s[a] s[\\]"}, {"ee'a'", "w[ee] s[a]"}, {`E'\`, `s[\] broken`},
		{"B'1' x'1F' N'a' n'b' U&'c' u&'d'", "s[1] s[1F] s[a] s[b] s[c] s[d]"}, {"u & 'a' U&5", "w[u] & s[a] w[U] & #[5]"},
		{`"a" "A""b" "" "open`, `n[a] n[A""b] n[] n[open] broken`},
		{`U&"a" U&"\0061" u&"\+000061b" U&"\\" U&"\00"`, `n[a] n[a] n[ab] n[\\] n[\00]`}, {`U&"!0061" UESCAPE '!' x`, `n[a] w[x]`}, {`U&"\0061" UESCAPE`, `n[a] w[UESCAPE]`},
		{`U&"a" uescape/* */'b' c`, `n[a] w[c]`}, {`U&"a" UESCAPE 'bc'`, `n[a] w[UESCAPE] s[bc]`}, {`U&"d!0061" /* c */ UESCAPE -- d` + "\n'!'", "n[da]"}, {`U&"\d800"`, `n[\d800]`}, {`U&"open`, `n[open] broken`},
		{"$$a$$ $x$ $$ $x$ $1 $12", "s[a] s[ $$ ] p[1] p[12]"}, {"$a$b$a", "s[b$a] broken"}, {"$é1$x$é1$", "s[x]"}, {"$1a$b$ x $b$", "p[1] w[a$b$] w[x] s[] broken"}, {"1$a$b$a$", "#[1] s[b]"},
		{"$a b $", "$ w[a] w[b] $"}, {"$$ $a$ $$", "s[ $a$ ]"}, {"a$$b$$", "w[a$$b$$]"}, {"$", "$"}, {"$$", "s[] broken"},
		{"1 1.5 .5 1. 1e5 1e-5 1.e+5 1_000 0x1F 0b1_1 1a", "#[1] #[1.5] #[.5] #[1.] #[1e5] #[1e-5] #[1.e+5] #[1_000] #[0x1F] #[0b1_1] #[1] w[a]"}, {"1..2", "#[1] . #[.2]"}, {"1e", "#[1] w[e]"},
		{"a--b\nc--d\re -- f", "w[a] w[c] w[e]"}, {"a/*b/*c*/d*/e/**/f", "w[a] w[e] w[f]"}, {"/* /* */", "broken"}, {"5*-1", "#[5] * - #[1]"}, {"a*/*x*/b", "w[a] * w[b]"},
		{"+-*/<>=~!@#%^&|`?:[]{}", "+ - * / < > = ~ ! @ # % ^ & | ` ? : [ ] { }"}, {"\t\n\v\f\r a", "w[a]"},
	})
	checkTokens(t, DialectPostgres, reading{flipBackslash: true}, []lexed{{`'a\' b' N'\'' "\"`, `s[a\' b] s[\'] n[\]`}, {`B'\' U&'\'`, `s[\] s[\]`}})
	checkTokens(t, DialectPostgres, reading{charset: charsetDouble}, []lexed{{"E'\xbf\\' a", "s[\xbf\\] w[a]"}, {"'\xbf", "s[\xbf] broken"}})
}

func TestMySQLTokens(t *testing.T) {
	checkTokens(t, DialectMySQL, reading{}, []lexed{
		{"", ""}, {"a.b", "w[a] . w[b]"}, {"a$b é1", "w[a$b] w[é1]"}, {"$a", "w[$a]"}, {"\xff\x00a", "w[\xff] \x00 w[a]"}, {"a\xa0b", "w[a\xa0b]"},
		{`'a' 'b''c' 'd\'e' '' '\\'`, `s[a] s[b''c] s[d\'e] s[] s[\\]`}, {`"a" "b""c" "d\"e" "f'g"`, `s[a] s[b""c] s[d\"e] s[f'g]`}, {"'open", "s[open] broken"}, {`'\`, `s[\] broken`},
		{"`a` `b``c` `d\\`", "n[a] n[b``c] n[d\\]"}, {"`open", "n[open] broken"}, {"N'a' _utf8'b' x'41' B'1'", "w[N] s[a] w[_utf8] s[b] w[x] s[41] w[B] s[1]"},
		{"@a @@b.c @'d(' @`e` @\"f\" a@b.c.d := @", "v[@a] v[@@b.c] v[@'d('] v[@`e`] v[@\"f\"] w[a] v[@b.c.d] : = v[@]"}, {"@'open", "v[@'open] broken"},
		{"? ?1", "p[?] p[?] #[1]"}, {"1 1.5 .5 1. 1e5 0x1F 1a 1_0", "#[1] #[1.5] #[.5] #[1.] #[1e5] #[0x1F] #[1a] #[1_0]"}, {"1.a", "#[1.] w[a]"},
		{"a#b\nc", "w[a] w[c]"}, {"a-- b\nc", "w[a] w[c]"}, {"a--\tb\nc", "w[a] w[c]"}, {"a--\x01b\nc", "w[a] w[c]"}, {"a--\nc", "w[a] w[c]"}, {"a--", "w[a]"}, {"a--b", "w[a] - - w[b]"},
		{"a-- b\rc", "w[a]"}, {"a--\x7fb", "w[a]"}, {"a/*b/*c*/d", "w[a] w[d]"}, {"a/*", "w[a] broken"}, {"a*/b", "w[a] * / w[b]"}, {"\t\n\v\f\r a", "w[a]"},
		{"a/*!b*/c", "w[a] w[b] w[c]"}, {"a/*!50000b*/c", "w[a] w[b] w[c]"}, {"a/*!050101 b*/c", "w[a] w[b] w[c]"}, {"a/*!99999b*/c", "w[a] w[b] w[c]"}, {"/*M!100100 a*/b", "w[a] w[b]"},
		{"/*!'*/'*/b", "s[*/] w[b]"}, {"/*!-- */\na*/b", "w[a] w[b]"}, {"/*!/*x*/a*/b", "w[a] w[b]"}, {"/*!/*!a*/b*/", "w[a] w[b] * /"}, {"/*!a", "w[a] broken"}, {"/*m!a*/b", "w[b]"},
	})
	checkTokens(t, DialectMySQL, reading{flipBackslash: true}, []lexed{{`'\' a "\"`, `s[\] w[a] s[\]`}})
	checkTokens(t, DialectMySQL, reading{ansiQuotes: true}, []lexed{{`"\" '\''`, `s[\] s[\']`}})
	checkTokens(t, DialectMySQL, reading{skipVersioned: true}, []lexed{
		{"a/*!b*/c", "w[a] w[b] w[c]"}, {"a/*!50505b*/c", "w[a] w[b] w[c]"}, {"a/*!50506b*/c", "w[a] w[c]"}, {"a/*!99999b*/c", "w[a] w[c]"}, {"/*!999999b*/c", "w[c]"}, {"/*!500001 b*/c", "w[c]"},
		{"/*M!a*/b", "w[b]"}, {"/*!99999'*/a", "w[a]"}, {"/*!99999/*x*/a*/b", "w[b]"}, {"/*!99999/*/*x*/a*/b", "w[b]"}, {"/*!99999 a", "broken"}, {"/*!a/*!99999b*/c*/d", "w[a] w[c] w[d]"},
		{"/*!9999 a*/", "w[a]"},
	})
	checkTokens(t, DialectMySQL, reading{charset: charsetSingle}, []lexed{{"a\xa0b --\xa0c", "w[a] w[b]"}})
	checkTokens(t, DialectMySQL, reading{charset: charsetDouble}, []lexed{{"'\xbf\\' a", "s[\xbf\\] w[a]"}})
}

func TestTokenPlaces(t *testing.T) {
	for _, d := range []Dialect{DialectPostgres, DialectMySQL} {
		text := ` a 'b' "c" 12 , `
		l := lexer{dialect: d, text: text}
		for _, want := range []string{"a", "'b'", `"c"`, "12", ",", "", ""} {
			var tok token
			if l.next(&tok); text[tok.pos:tok.end] != want {
				t.Errorf("%v: %q, want %q", d, text[tok.pos:tok.end], want)
			}
		}
	}
}

func TestEqualFold(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{{"", "", true}, {"aZ_1", "Az_1", true}, {"a", "b", false}, {"a", "ab", false}, {"k", "\u212a", false}, {"@", "`", false}, {"[", "{", false}} {
		if got := equalFold(test.a, test.b); got != test.want {
			t.Errorf("equalFold(%q, %q) = %v", test.a, test.b, got)
		}
	}
	if !containsFold("xxABCx", "abc") || containsFold("xxAB", "abc") || containsFold("", "a") || !containsFold("aab", "ab") {
		t.Error("containsFold")
	}
}
