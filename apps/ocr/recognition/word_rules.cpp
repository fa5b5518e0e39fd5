// The filter of training words, with counts by reason: empty, too long, outside of the dictionary, shortened.
#include <apps/ocr/recognition/word_rules.h>

#include <apps/ocr/recognition/characters.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

namespace lockstep::ocr {
namespace {

std::string text_of(const FilePosition& place) {
  return place.line > 0 ? fmt::format("{}:{}", place.file, place.line) : place.file;
}

}  // namespace

void describe_limits(ConfigFields& fields, WordLimits& limits) {
  fields.field("max_text_len", limits.max_text_len, between(1, 10000), "characters of the longest word of training");
  fields.field("too_long", limits.too_long, one_of({"drop", "fail"}),
               "a longer word: left out and counted, or an error");
  fields.field("empty", limits.empty, one_of({"drop", "fail"}),
               "a word that is empty, or has no character of the dictionary: left out and counted, or an error");
  fields.field("outside", limits.outside, one_of({"remove", "drop", "fail"}),
               "characters of a word that are not in the dictionary: removed, the word left out, both counted, or an "
               "error");
}

bool WordRules::keeps(std::string_view label, const Place& place) {
  ++words_;
  std::u32string word;
  try {
    word = characters_of(label);
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), error.message(), place());
  }
  if (word.empty()) return drop(kEmpty, limits_.empty, "data.empty", "is empty", label, place);
  if (static_cast<std::int64_t>(word.size()) > limits_.max_text_len) {
    return drop(kTooLong, limits_.too_long, "data.too_long",
                fmt::format("has {} characters, and data.max_text_len is {}", word.size(), limits_.max_text_len), label,
                place);
  }
  if (const auto outside = dictionary_.first_outside(word); outside && limits_.outside != "remove") {
    return drop(kOutside, limits_.outside, "data.outside",
                fmt::format("has '{}', which is not in the dictionary", to_utf8(std::u32string_view(&*outside, 1))),
                label, place);
  }
  const auto left = dictionary_.encode(word).size();
  if (left == 0) {
    return drop(kNothingLeft, limits_.empty, "data.empty", "has no character of the dictionary", label, place);
  }
  if (left < word.size()) count(kShortened, label, place);
  return true;
}

bool WordRules::drop(Reason reason, const std::string& policy, std::string_view key, std::string_view rule,
                     std::string_view label, const Place& place) {
  if (policy == "fail") {
    throw Error(
        ErrorKind::data, key,
        fmt::format("is fail, and the word '{}' {}; correct the word, or set {} to drop", cut_text(label), rule, key),
        place());
  }
  count(reason, label, place);
  return false;
}

void WordRules::count(Reason reason, std::string_view label, const Place& place) {
  auto& of = counts_.at(reason);
  if (of.words++ == 0) of.first = fmt::format("'{}' ({})", cut_text(label), text_of(place()));
}

std::int64_t WordRules::dropped() const {
  std::int64_t words = 0;
  for (const auto reason : {kEmpty, kTooLong, kNothingLeft, kOutside}) words += counts_.at(reason).words;
  return words;
}

void WordRules::report(std::string_view what) const {
  const auto tell = [&](Reason reason, std::string_view why) {
    const auto& of = counts_.at(reason);
    if (of.words == 0) return;
    log_warning("{} of {} words of {} {}; the first is {}", of.words, words_, what, why, of.first);
  };
  tell(kEmpty, "are empty and left out (data.empty: drop)");
  tell(kTooLong, fmt::format("are longer than {} characters and left out (data.too_long: drop)", limits_.max_text_len));
  tell(kNothingLeft, "have no character of the dictionary and are left out (data.empty: drop)");
  tell(kOutside, "have characters outside of the dictionary and are left out (data.outside: drop)");
  tell(kShortened, "have characters outside of the dictionary, which are removed (data.outside: remove)");
}

}  // namespace lockstep::ocr
