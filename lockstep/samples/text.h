// Text as a data set: windows of tokens, and the next token of each.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::samples {

/// Fields: `tokens` and `next`, int64 [N, length]; next[i] is what follows tokens[i] in the file.
inline constexpr const char* kTokens = "tokens";
inline constexpr const char* kNext = "next";
/// If the loss covers only some tokens of `next` (data.loss_behind): `counted`, bool [N, length].
inline constexpr const char* kCounted = "counted";
/// Fields of prompts, whose `tokens` are padded with zeros and which have no `next`: the number of tokens of each,
/// int64 [N], and a unique number, int64 [N], so that equal prompts get different texts.
inline constexpr const char* kLengths = "lengths";
inline constexpr const char* kNumbers = "numbers";

struct TextOptions {
  std::string file;              ///< bytes are tokens from 0 to 255, unless `tokens` sets another form
  std::string tokens = "bytes";  ///< bytes; uint16 or uint32: numbers in little-endian order
  std::int64_t length = 128;     ///< tokens of a sample
  std::int64_t vocabulary = 0;   ///< tokens must be below it; 0: any
  double eval_share = 0.1;       ///< share of the file, at its end, for evaluation; 0: no evaluation
};
void describe(ConfigFields& fields, TextOptions& options);

/// A split of the file: windows of `length` tokens, one after the other; a remainder that is shorter than a window is
/// left out. The file is mapped, so it may be larger than memory. nullptr for the test split with eval_share 0.
/// Error(config) naming data.file when it is not there, empty, or too short for a window; Error(io) when it cannot be
/// read; Error(data) when its size is not a multiple of a token's. `get` throws Error(data) for a token outside the
/// vocabulary.
std::shared_ptr<const Dataset> load_text(const TextOptions& options, data::Split split);

/// A batch of one sample; reads no file.
Batch text_example(const TextOptions& options);

}  // namespace lockstep::samples
