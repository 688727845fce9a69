package model

// PricesDate is the day of the public price data the built-in table was made from.
const PricesDate = "2026-07-02"

// Price is what a model costs, in US dollars per million tokens. Above Tier input tokens of one
// request, cached ones included, the Tier prices hold for the whole request; Tier 0 is no tier.
type Price struct {
	Input, Output         float64
	CacheRead, CacheWrite float64 // 0 where the provider has no such price: the input price holds

	Tier                                 int64
	TierInput, TierOutput, TierCacheRead float64
}

// Cost is the price of one answer. ok is false while the usage is unknown: then nothing is known
// of the cost either, and it is not 0.
func (p Price) Cost(u Usage) (usd float64, ok bool) {
	if !u.Known {
		return 0, false
	}
	in, out, read, write := p.Input, p.Output, p.CacheRead, p.CacheWrite
	if p.Tier > 0 && u.Input+u.CacheRead+u.CacheWrite > p.Tier {
		in, out, read = p.TierInput, p.TierOutput, p.TierCacheRead
	}
	if read == 0 {
		read = in
	}
	if write == 0 {
		write = in
	}
	sum := float64(u.Input)*in + float64(u.Output)*out + float64(u.CacheRead)*read + float64(u.CacheWrite)*write
	return sum / 1e6, true
}

// Facts is what is known of a model without asking its provider. Zero values are unknown.
type Facts struct {
	Context   int64 // tokens of prompt and answer together
	MaxOutput int64
	Price     *Price // nil: the cost is unknown
}

// Known looks a model up in the built-in table by provider and name. The table is small and ages;
// what it does not have is unknown, never free.
func Known(provider, name string) (Facts, bool) {
	for _, row := range table() {
		if row.provider == provider && row.name == name {
			price := row.price
			return Facts{Context: row.context, MaxOutput: row.output, Price: &price}, true
		}
	}
	return Facts{}, false
}

// KnownModels gives the names in the built-in table of one provider.
func KnownModels(provider string) []string {
	var out []string
	for _, row := range table() {
		if row.provider == provider {
			out = append(out, row.name)
		}
	}
	return out
}

type priceRow struct {
	provider, name  string
	context, output int64
	price           Price
}

// table holds facts from models.dev (MIT), as of PricesDate.
func table() []priceRow {
	return []priceRow{
		{"anthropic", "claude-haiku-4-5", 200_000, 64_000, Price{Input: 1, Output: 5, CacheRead: 0.1, CacheWrite: 1.25}},
		{"anthropic", "claude-opus-4-5", 200_000, 64_000, Price{Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25}},
		{"anthropic", "claude-opus-4-8", 1_000_000, 128_000, Price{Input: 5, Output: 25, CacheRead: 0.5, CacheWrite: 6.25}},
		{"anthropic", "claude-sonnet-4-5", 200_000, 64_000, Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}},
		{"anthropic", "claude-sonnet-4-6", 1_000_000, 64_000, Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}},
		{"anthropic", "claude-sonnet-5", 1_000_000, 128_000, Price{Input: 2, Output: 10, CacheRead: 0.2, CacheWrite: 2.5}},
		{"openai", "gpt-4.1", 1_047_576, 32_768, Price{Input: 2, Output: 8, CacheRead: 0.5}},
		{"openai", "gpt-4.1-mini", 1_047_576, 32_768, Price{Input: 0.4, Output: 1.6, CacheRead: 0.1}},
		{"openai", "gpt-4o", 128_000, 16_384, Price{Input: 2.5, Output: 10, CacheRead: 1.25}},
		{"openai", "gpt-4o-mini", 128_000, 16_384, Price{Input: 0.15, Output: 0.6, CacheRead: 0.075}},
		{"openai", "gpt-5-mini", 400_000, 128_000, Price{Input: 0.25, Output: 2, CacheRead: 0.025}},
		{"openai", "gpt-5.1", 400_000, 128_000, Price{Input: 1.25, Output: 10, CacheRead: 0.125}},
		{"openai", "gpt-5.2", 400_000, 128_000, Price{Input: 1.75, Output: 14, CacheRead: 0.175}},
		{"openai", "gpt-5.3-codex", 400_000, 128_000, Price{Input: 1.75, Output: 14, CacheRead: 0.175}},
		{"openai", "gpt-5.4", 1_050_000, 128_000, Price{Input: 2.5, Output: 15, CacheRead: 0.25, Tier: 272_000, TierInput: 5, TierOutput: 22.5, TierCacheRead: 0.5}},
		{"openai", "gpt-5.4-mini", 400_000, 128_000, Price{Input: 0.75, Output: 4.5, CacheRead: 0.075}},
		{"openai", "gpt-5.5", 1_050_000, 128_000, Price{Input: 5, Output: 30, CacheRead: 0.5, Tier: 272_000, TierInput: 10, TierOutput: 45, TierCacheRead: 1}},
		{"openai", "o4-mini", 200_000, 100_000, Price{Input: 1.1, Output: 4.4, CacheRead: 0.275}},
		{"groq", "llama-3.3-70b-versatile", 131_072, 32_768, Price{Input: 0.59, Output: 0.79}},
		{"groq", "openai/gpt-oss-20b", 131_072, 65_536, Price{Input: 0.075, Output: 0.3, CacheRead: 0.0375}},
		{"gemini", "gemini-3.1-pro-preview", 1_048_576, 65_536, Price{Input: 2, Output: 12, CacheRead: 0.2, Tier: 200_000, TierInput: 4, TierOutput: 18, TierCacheRead: 0.4}},
		{"gemini", "gemini-3.5-flash", 1_048_576, 65_536, Price{Input: 1.5, Output: 9, CacheRead: 0.15}},
		{"deepseek", "deepseek-v4-flash", 1_000_000, 384_000, Price{Input: 0.14, Output: 0.28, CacheRead: 0.0028}},
		{"deepseek", "deepseek-v4-pro", 1_000_000, 384_000, Price{Input: 0.435, Output: 0.87, CacheRead: 0.003625}},
		{"openrouter", "qwen/qwen3-coder", 262_144, 65_536, Price{Input: 0.22, Output: 1.8}},
	}
}
