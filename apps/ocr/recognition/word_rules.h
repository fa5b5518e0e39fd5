// The rules that leave out words of the training data. Every rank applies and counts them before the first step, with
// the same result.
#pragma once

#include <apps/ocr/recognition/dictionary.h>
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::ocr {

struct WordLimits {
  std::int64_t max_text_len = 24;  ///< characters
  std::string too_long = "drop";   ///< drop or fail
  std::string empty = "drop";      ///< drop or fail: words without a character of the dictionary
  std::string outside = "remove";  ///< remove, drop or fail: characters that are not in the dictionary
};
void describe_limits(ConfigFields& fields, WordLimits& limits);

/// Not thread-safe.
class WordRules {
 public:
  WordRules(const WordLimits& limits, const Dictionary& dictionary) : limits_(limits), dictionary_(dictionary) {}

  /// The position of a word; called only if a message needs it.
  using Place = std::function<FilePosition()>;

  /// Whether a word is used in training; counts other words. Error(data), with the position, for a word that a rule
  /// rejects, and for a text that is not UTF-8.
  bool keeps(std::string_view label, const Place& place);

  /// A line in the log when a word was left out or shortened. `what` names the data.
  void report(std::string_view what) const;

  std::int64_t dropped() const;

 private:
  enum Reason : std::size_t { kEmpty, kTooLong, kNothingLeft, kOutside, kShortened, kReasons };
  struct Count {
    std::int64_t words = 0;
    std::string first{};  ///< and its position
  };

  void count(Reason reason, std::string_view label, const Place& place);
  bool drop(Reason reason, const std::string& policy, std::string_view key, std::string_view rule,
            std::string_view label, const Place& place);

  const WordLimits& limits_;
  const Dictionary& dictionary_;
  std::array<Count, kReasons> counts_;
  std::int64_t words_ = 0;
};

}  // namespace lockstep::ocr
