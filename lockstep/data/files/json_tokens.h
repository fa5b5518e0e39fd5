// Tokens of a document, from its bytes or from a line of JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::data {

std::vector<std::int64_t> byte_tokens(std::string_view text);

/// The document under `key` of a JSON object: a text, each byte of which is a token, or a list of whole numbers from 0
/// on. Error(data) for anything else.
std::vector<std::int64_t> json_tokens(std::string_view line, std::string_view key);

/// Error(data) naming the first token that is not below `vocabulary`.
void require_below(std::span<const std::int64_t> tokens, std::int64_t vocabulary);

}  // namespace lockstep::data
