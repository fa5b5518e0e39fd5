// Which words of the training data are left out, counted before the first step on every rank alike.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/ocr/recognition/dictionary.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::ocr {

struct WordLimits {
  std::int64_t max_text_len = 24;  ///< characters
  std::string too_long = "drop";   ///< drop or fail
  std::string empty = "drop";      ///< drop or fail: nothing, or nothing that is in the dictionary
  std::string outside = "remove";  ///< remove, drop or fail: characters that are not in the dictionary
};
void describe_limits(ConfigFields& fields, WordLimits& limits);

/// Not thread-safe.
class WordRules {
 public:
  WordRules(const WordLimits& limits, const Dictionary& dictionary) : limits_(limits), dictionary_(dictionary) {}

  /// Where a word is written; asked for where a message needs it.
  using Place = std::function<FilePosition()>;

  /// Whether a word is trained; counts those that are not. Error(data), with the place, for one that a rule refuses,
  /// and for a text that is no UTF-8.
  bool keeps(std::string_view label, const Place& place);

  /// A line in the log when a word was left out or shortened. `what` names the data.
  void report(std::string_view what) const;

  std::int64_t dropped() const;

 private:
  enum Reason : std::size_t { kEmpty, kTooLong, kNothingLeft, kOutside, kShortened, kReasons };
  struct Count {
    std::int64_t words = 0;
    std::string first{};  ///< and its place
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
