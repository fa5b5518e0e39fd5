// Files of documents as a stream for language models: lines of text, JSON lines, or token files, packed into windows.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::samples {

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

/// A split. Fields as of samples/text.h: `tokens` and `next`, int64 [length]. The documents of a file are concatenated,
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
