// Dictionaries: which characters can be read, from a file or by default.
#include <apps/ocr/recognition/characters.h>
#include <apps/ocr/recognition/dictionary.h>
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/expect_error.h"
#include "data/files/picture_files.h"

namespace lockstep::test {
namespace {

using ocr::Dictionary;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Characters, ComeBackAsTheyWere) {
  const std::string text = "aé€\xF0\x9F\x98\x80´";
  EXPECT_EQ(ocr::characters_of(text), U"aé€😀´");
  EXPECT_EQ(ocr::to_utf8(ocr::characters_of(text)), text);
}

TEST(Characters, BytesThatAreNoUtf8AreNamed) {
  for (const std::string text : {"ab\xE9", "ab\xC3", "ab\xC0\x80", "ab\xED\xA0\x80", "ab\xF5\x80\x80\x80", "ab\x80",
                                 "ab\xE0\x80\x80", "ab\xF0\x80\x80\x80"}) {
    expect_error(ErrorKind::data, {"no UTF-8", "byte 3"}, [&] { ocr::characters_of(text); });
  }
}

TEST(Characters, HaveSmallLetters) {
  EXPECT_EQ(ocr::lower_case(U"AZÉ×ŸĀĹŽΑΩЀЯẠ中1"), U"azé×ÿāĺžαωѐяạ中1");
  EXPECT_EQ(ocr::lower_case(U"azéÿāĺžαωѐяạ"), U"azéÿāĺžαωѐяạ");
}

TEST(DictionaryOfWords, ByDefaultHasDigitsAndSmallLetters) {
  const Dictionary dictionary({}, "data");
  EXPECT_EQ(dictionary.size(), 36);
  EXPECT_EQ(dictionary.character(0), U'0');
  EXPECT_EQ(dictionary.character(35), U'z');
  EXPECT_THAT(dictionary.encode(U"09AzaZ"), ElementsAre(0, 9, 10, 35, 10, 35));
  EXPECT_THAT(dictionary.encode(U"CAFÉ"), ElementsAre(12, 10, 15));
  EXPECT_THAT(dictionary.encode(U"..."), IsEmpty());
  EXPECT_EQ(dictionary.first_outside(U"CAFÉ"), U'É');
  EXPECT_EQ(dictionary.first_outside(U"Cafe"), std::nullopt);
}

TEST(DictionaryOfWords, ABlankIsTheLastCharacter) {
  const Dictionary dictionary({.use_space_char = true}, "data");
  EXPECT_EQ(dictionary.size(), 37);
  EXPECT_THAT(dictionary.encode(U"a b"), ElementsAre(10, 36, 11));
}

class DictionaryFile : public testing::Test {
 protected:
  Dictionary read(const std::string& text, std::optional<bool> lower = std::nullopt, bool space = false) const {
    write_bytes(file(), text);
    return Dictionary({file(), space, lower}, "task");
  }
  std::string file() const { return (folder_.path() / "dict.txt").string(); }

  TemporaryFolder folder_;
};

TEST_F(DictionaryFile, HasACharacterInEachLine) {
  const auto dictionary = read(
      "\xEF\xBB\xBF"
      "a\r\né\n中\n");
  EXPECT_THAT(dictionary.encode(U"中Éa"), ElementsAre(2, 1, 0));
}

TEST_F(DictionaryFile, CapitalLettersInItAreNoSmallOnes) {
  EXPECT_THAT(read("a\nA\n").encode(U"aAb"), ElementsAre(0, 1));
  EXPECT_THAT(read("a\nb\n", false).encode(U"aAb"), ElementsAre(0, 1));
  expect_error(ErrorKind::config, {"task.lower", "'A'", "dict.txt"}, [&] { read("a\nA\n", true); });
}

TEST_F(DictionaryFile, ThatIsWrittenInAnotherWayIsRefused) {
  expect_error(ErrorKind::data, {"dict.txt:2", "has 2", "'bc'"}, [&] { read("a\nbc\n"); });
  expect_error(ErrorKind::data, {"dict.txt:3", "'a' is there twice"}, [&] { read("a\nb\na\n"); });
  expect_error(ErrorKind::data, {"dict.txt:1", "no UTF-8"}, [&] { read("\xE9\n"); });
  expect_error(ErrorKind::config, {"task.use_space_char", "a blank of its own"},
               [&] { read(" \na\n", std::nullopt, true); });
  expect_error(ErrorKind::config, {"task.dictionary", "no characters"}, [&] { read("\n\n"); });
  expect_error(ErrorKind::config, {"task.dictionary", "none.txt"},
               [&] { Dictionary({.dictionary = (folder_.path() / "none.txt").string()}, "task"); });
}

}  // namespace
}  // namespace lockstep::test
