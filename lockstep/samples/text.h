// Text as data sets for language models: windows of tokens of one file, and the next token of each; and files of
// documents as a stream: lines of text, JSON lines, or token files, packed into windows.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

struct TokenStreamOptions {
  std::vector<std::string> train;  ///< files, or folders with all their files; each file is a shard
  std::vector<std::string> eval;   ///< the same for evaluation; empty: none
  std::string format = "lines";    ///< lines, jsonl, bytes, uint16 or uint32
  std::string key = "text";        ///< jsonl: the key of a document: a text, or a list of tokens
  std::int64_t separator = 10;     ///< lines, jsonl: the token after each document; -1: none
  std::int64_t vocabulary = 0;     ///< tokens must be below it; 0: any
  std::int64_t length = 128;       ///< tokens of a sample
  std::int64_t window = 256;       ///< samples that are read and shuffled together
  std::string on_error = "fail";   ///< the handling of an unusable line: fail or skip
  std::string loss_behind;  ///< lines, jsonl: a marker; tokens up to its first occurrence do not count for the loss;
                            ///< empty: all tokens count
};
void describe(ConfigFields& fields, TokenStreamOptions& options);

/// A split. Fields as of load_text: `tokens` and `next`, int64 [length]. The documents of a file are concatenated,
/// whatever their lengths; a remainder at the end of a file that is shorter than a sample is left out. Each byte of a
/// text is a token. nullptr for the test split without files.
///
/// With `loss_behind` there is also the field `counted`: whether a token of `next` is after the marker of its document,
/// or is the separator after that document.
///
/// Error(config) for files that are missing, and when no file has a whole sample; Error(data) with file and line for
/// a line that is not JSON with that key, or has no marker, and a token outside the vocabulary.
std::shared_ptr<const Dataset> load_token_stream(const TokenStreamOptions& options, data::Split split);

}  // namespace lockstep::samples
