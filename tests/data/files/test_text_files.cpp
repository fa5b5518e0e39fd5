// CSV, lines and tokens.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/files/mapped_file.h>
#include <lockstep/data/files/text_files.h>
#include <lockstep/data/files/token_file.h>
#include <lockstep/data/pictures.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

using testing::ElementsAre;

struct ReadRow {
  int line;
  std::vector<std::string> cells;
  bool operator==(const ReadRow&) const = default;
};

std::vector<ReadRow> rows_of(std::string_view text, char separator = ',', bool trims = false) {
  data::CsvReader reader(text, "table.csv", separator, trims);
  std::vector<ReadRow> rows;
  while (auto row = reader.next()) rows.push_back({row->line, row->cells});
  return rows;
}

TEST(Csv, LeavesOutBlanksAroundCells) {
  EXPECT_THAT(rows_of(" a , \" b \" ,c d\t\n \t\n1,,\r\n", ',', true),
              ElementsAre(ReadRow{1, {"a", " b ", "c d"}}, ReadRow{3, {"1", "", ""}}));
  EXPECT_THAT(rows_of("a\t b\t\t\"c\" \n", '\t', true), ElementsAre(ReadRow{1, {"a", "b", "", "c"}}))
      << "a tab that separates cells is no blank";
  EXPECT_THAT(rows_of(" a , \"b\n"), ElementsAre(ReadRow{1, {" a ", " \"b"}}));
}

TEST(Encoding, OfTextThatIsNotUtf8IsNamedWithTheWayOut) {
  using namespace std::string_literals;
  const auto refuses = [](const std::string& text, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::data, words, [&] { data::refuse_wide_text(text, "a.csv"); });
  };
  refuses(
      "\xff\xfe"
      "a\0"s,
      {"UTF-16", "iconv -f UTF-16 -t UTF-8 'a.csv'"});
  refuses(
      "\xfe\xff"
      "\0a"s,
      {"UTF-16"});
  refuses("\xff\xfe\0\0a\0\0\0"s, {"UTF-32"});
  refuses("a\0b\0\n\0"s, {"UTF-16", "UTF-16LE"});
  for (const auto& text : {"a,b\n"s, "a\0b"s,
                           "\xef\xbb\xbf"
                           "a"s,
                           ""s, "\0\0\0\0"s}) {
    EXPECT_NO_THROW(data::refuse_wide_text(text, "a.csv")) << text;
  }
  EXPECT_EQ(data::why_not_utf8("K\u00f6ln\n", "a.csv"), std::nullopt);
  const auto gbk = data::why_not_utf8("a\n\xc4\xe3\xba\xc3\n", "a.csv");
  ASSERT_TRUE(gbk.has_value());
  expect_words(*gbk, {"line 2", "0xc4", "GBK", "LATIN1", "iconv"});
}

TEST(MissingFile, AdviceSaysWhatMayBeMeant) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "img");
  for (const auto* name : {"img/A.JPG", "img/caf\u00e9.jpg", "img/\u304c.png"})
    std::ofstream(folder.path() / name) << 1;
  const auto advice = [&](const char* name) { return data::advice_on_missing(folder.path() / name); };
  expect_words(advice("img\\A.JPG"), {"\\", "write /", "the file is there"});
  expect_words(advice("img\\b.jpg"), {"\\", "write /"});
  expect_words(advice("img/a.jpg"), {"'A.JPG'"});
  expect_words(advice("img/cafe\u0301.jpg"), {"'caf\u00e9.jpg'", "accents"});
  expect_words(advice("img/\u304b\u3099.png"), {"'\u304c.png'", "accents"});
  expect_words(advice("img/b.jpg "), {"ends with a blank"});
  EXPECT_EQ(advice("img/cafe.jpg"), "") << "another name";
  EXPECT_EQ(advice("nowhere/a.jpg"), "");
}

TEST(Csv, ReadsCellsOfEveryForm) {
  EXPECT_THAT(rows_of("a,b\n1,2\n"), ElementsAre(ReadRow{1, {"a", "b"}}, ReadRow{2, {"1", "2"}}));
  EXPECT_THAT(rows_of("\xef\xbb\xbf"
                      "a,b\r\n\r\n,x\r\n"),
              ElementsAre(ReadRow{1, {"a", "b"}}, ReadRow{3, {"", "x"}}));
  EXPECT_THAT(rows_of("\"a,\"\"b\"\"\",\"two\nlines\"\nx,y"),
              ElementsAre(ReadRow{1, {"a,\"b\"", "two\nlines"}}, ReadRow{3, {"x", "y"}}));
  EXPECT_THAT(rows_of("a;b,c;", ';'), ElementsAre(ReadRow{1, {"a", "b,c", ""}}));
  EXPECT_THAT(rows_of("\"\",\"\"\n"), ElementsAre(ReadRow{1, {"", ""}}));
  EXPECT_TRUE(rows_of("").empty());
  EXPECT_TRUE(rows_of("\n\r\n").empty());
}

TEST(Csv, ARowThatIsWrongIsNamedAndTheNextIsRead) {
  data::CsvReader reader("a,\"b\"c\nx,y\n\"open,z\n", "table.csv");
  expect_error(ErrorKind::data, {"table.csv:1", "closing quote"}, [&] { reader.next(); });
  const auto row = reader.next();
  ASSERT_TRUE(row);
  EXPECT_THAT(row->cells, ElementsAre("x", "y"));
  expect_error(ErrorKind::data, {"table.csv:3", "not closed"}, [&] { reader.next(); });
  EXPECT_FALSE(reader.next());
}

TEST(Lines, HaveNumbersAndNoEnds) {
  std::vector<std::pair<int, std::string>> lines;
  data::for_each_line(
      "\xef\xbb\xbf"
      "one\r\n\n three\nfour",
      [&](std::string_view line, int number) { lines.emplace_back(number, line); });
  EXPECT_THAT(lines, ElementsAre(std::pair(1, "one"), std::pair(3, " three"), std::pair(4, "four")));
}

TEST(Tokens, AreCheckedAgainstTheFileAndTheVocabulary) {
  const std::vector<std::uint8_t> bytes{1, 0, 0, 2, 0xff, 0xff};
  const data::TokenView tokens(bytes, "uint16", 0, "t.bin");
  ASSERT_EQ(tokens.size(), 3);
  std::vector<std::int64_t> out(3);
  tokens.copy(0, out);
  EXPECT_THAT(out, ElementsAre(1, 512, 65535));
  expect_error(ErrorKind::invalid_argument, {"t.bin", "3 tokens"}, [&] { tokens.copy(1, out); });
  expect_error(ErrorKind::invalid_argument, {"t.bin"}, [&] { tokens.copy(-1, out); });
  const data::TokenView few(bytes, "uint16", 600, "t.bin");
  expect_error(ErrorKind::data, {"token 2 of t.bin", "byte 4", "65535", "data.vocabulary is 600"},
               [&] { few.copy(0, out); });
  expect_error(ErrorKind::data, {"t.bin", "6 bytes", "uint32"}, [&] { data::TokenView(bytes, "uint32", 0, "t.bin"); });
}

TEST(MappedFile, SaysWhatIsNoFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "f";
  expect_error(ErrorKind::config, {"data.file", "no file"}, [&] { data::MappedFile(file, "data.file"); });
  expect_error(ErrorKind::config, {"data.file", "a folder"}, [&] { data::MappedFile(folder.path(), "data.file"); });
  std::ofstream(file).close();
  EXPECT_TRUE(data::MappedFile(file, "data.file").bytes().empty());
  std::ofstream(file) << "abc";
  EXPECT_EQ(data::MappedFile(file, "data.file").bytes().size(), 3U);
}

}  // namespace
}  // namespace lockstep::test
