// Tokens of a document from raw bytes or a JSON line (nlohmann::json), and the check against the vocabulary.
#include <lockstep/base/error.h>
#include <lockstep/base/json_words.h>
#include <lockstep/data/files/json_tokens.h>

#include <nlohmann/json.hpp>

namespace lockstep::data {

std::vector<std::int64_t> byte_tokens(std::string_view text) {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
  return tokens;
}

std::vector<std::int64_t> json_tokens(std::string_view line, std::string_view key) {
  try {
    const auto json = nlohmann::json::parse(line);
    const auto& document = json.at(std::string(key));
    if (document.is_string()) return byte_tokens(document.get_ref<const std::string&>());
    std::vector<std::int64_t> tokens;
    for (const auto& token : document.get_ref<const nlohmann::json::array_t&>()) {
      constexpr std::uint64_t kMost = 0xffffffff;
      if (!token.is_number_unsigned() || token.get<std::uint64_t>() > kMost) {
        fail(ErrorKind::data, "tokens", "token {} of '{}' is no whole number from 0 to {}", tokens.size(), key, kMost);
      }
      tokens.push_back(token.get<std::int64_t>());
    }
    return tokens;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "tokens", "the line should be a JSON object whose '{}' is a text or a list of tokens: {}",
         key, json_mistake(error));
  }
}

void require_below(std::span<const std::int64_t> tokens, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < vocabulary) continue;
    fail(ErrorKind::data, "tokens",
         "token {} of the document is {}, and data.vocabulary is {}: tokens are from 0 to {}", i, tokens[i], vocabulary,
         vocabulary - 1);
  }
}

}  // namespace lockstep::data
