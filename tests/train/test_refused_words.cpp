// The words of other frameworks that are refused: the table of docs/coming_from.md is that of the program.
#include <lockstep/base/files.h>
#include <lockstep/train/keys/foreign_tables.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::train {
namespace {

/// One row for all words of a framework with the same answer.
std::string table_of_words() {
  std::string table = "| there | from | here |\n|---|---|---|\n";
  const auto words = documented_words();
  std::set<std::string_view> done;
  for (const DocumentedWord& word : words) {
    std::string there;
    for (const DocumentedWord& other : words) {
      if (other.from != word.from || other.here != word.here || !done.insert(other.there).second) continue;
      there += fmt::format("{}`{}`", there.empty() ? "" : ", ", other.there);
    }
    const auto here = is_sentence(word.here) ? std::string(word.here) : fmt::format("`{}`", word.here);
    if (!there.empty()) table += fmt::format("| {} | {} | {} |\n", there, word.from, here);
  }
  return table;
}

TEST(RefusedWords, AreThoseOfTheDocument) {
  const auto text = lockstep::read_file(LOCKSTEP_SOURCE_DIR "/docs/coming_from.md");
  ASSERT_TRUE(text);
  constexpr std::string_view kBegin = "<!-- words of other frameworks -->\n\n";
  const auto begin = text->find(kBegin);
  ASSERT_NE(begin, std::string::npos);
  const auto end = text->find("\n\n", begin + kBegin.size());
  EXPECT_EQ(text->substr(begin + kBegin.size(), end + 1 - begin - kBegin.size()), table_of_words())
      << "put the second into the document";
}

TEST(RefusedWords, AreAllAnsweredWithWhatTheTableSays) {
  std::set<std::string_view> seen;
  for (const DocumentedWord& word : documented_words()) {
    EXPECT_TRUE(seen.insert(word.there).second) << word.there << " is listed twice";
    const std::string key(word.there.substr(0, word.there.find(".*")));
    const auto answer = here_instead_of(key, {}, refused_words());
    EXPECT_NE(answer.find(word.here), std::string::npos) << key << answer;
  }
}

TEST(RefusedWords, OfValuesAreAnswered) {
  const std::vector<std::string> modes = {"stand_alone", "data_parallel", "semi_auto", "auto"};
  EXPECT_EQ(value_here("SEMI_AUTO_PARALLEL", modes, refused_words()), "; here it is called 'semi_auto'");
  EXPECT_NE(value_here("HYBRID_PARALLEL", modes, refused_words()).find("by hand"), std::string::npos);
  EXPECT_NE(value_here("GRAPH_MODE", modes, refused_words()).find("remove it"), std::string::npos);
  EXPECT_EQ(value_here("gpu", modes, refused_words()), "");
}

}  // namespace
}  // namespace lockstep::train
