// Words from lists and LMDB: which are used, and what is said of the others.
#include <apps/ocr/recognition/words.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/samples/pictures.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/expect_error.h"
#include "data/files/lmdb_folder.h"
#include "data/files/picture_files.h"
#include "ocr/recognition/word_files.h"
#include "support/hostile_text.h"
#include "support/read_file.h"

namespace lockstep::test {
namespace {

using data::Split;
using samples::Chance;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Labels = std::vector<std::string>;

Labels labels_of(const samples::Dataset& words) {
  Labels labels;
  for (std::int64_t i = 0; i < words.size(); ++i) {
    labels.push_back(words.get(i, Chance(0, 0, i)).texts.at(samples::kLabels));
  }
  return labels;
}

class WordSets : public testing::Test {
 protected:
  WordSets() { write_bytes(root() / "images/a.png", picture_of_word("ab", 0)); }

  std::filesystem::path root() const { return folder_.path(); }

  ocr::WordsOptions by_list(const std::string& text) const {
    write_bytes(root() / "list.txt", text);
    ocr::WordsOptions options;
    options.root = root().string();
    options.train = {"list.txt"};
    options.train_images = "images";
    return options;
  }

  /// Of a list of these words, all with the same picture.
  ocr::WordsOptions of_words(const Labels& words) const {
    std::string text;
    for (const auto& word : words) text += fmt::format("a.png\t{}\n", word);
    return by_list(text);
  }

  TemporaryFolder folder_;
};

Labels trained(const ocr::WordsOptions& options) { return labels_of(*ocr::load_words(options, Split::train)); }

TEST_F(WordSets, AListHasNameTabAndWord) {
  const auto words = ocr::load_words(by_list("\xEF\xBB\xBF"
                                             "a.png\tStage 1\r\n\r\na.png\t\"x\"\ty\r\n"),
                                     Split::train);
  EXPECT_THAT(labels_of(*words), ElementsAre("Stage 1", "\"x\"\ty"));
  const auto sample = words->get(0, Chance(0, 0, 0));
  EXPECT_EQ(sample.tensors.at(samples::kPictures).sizes(), (std::vector<std::int64_t>{32, 50, 3}));
  EXPECT_EQ(sample.texts.at(samples::kNames), (root() / "images/a.png").string());
  EXPECT_EQ(ocr::load_words(by_list("a.png\ta\n"), Split::test), nullptr);
}

TEST_F(WordSets, IcdarsOwnListHasQuotes) {
  auto options = by_list(
      "\xEF\xBB\xBF"
      "a.png, \"Genaxis Theatre\"\r\na.png, \"\\\"SCAN\\\"\"\r\na.png, \"36,000, \"1\"\"\r\n");
  options.labels = "icdar";
  EXPECT_THAT(trained(options), ElementsAre("Genaxis Theatre", "\"SCAN\"", "36,000, \"1\""));
}

TEST_F(WordSets, ALineThatIsWrittenInAnotherWayIsNamed) {
  expect_error(ErrorKind::data, {"list.txt:2", "a tab", "'a.png word'"},
               [&] { trained(by_list("a.png\ta\na.png word\n")); });
  expect_error(ErrorKind::data, {"list.txt:1", "data.labels to icdar"}, [&] { trained(by_list("a.png, \"word\"\n")); });
  auto icdar = by_list("a.png, \"a\"\na.png\tb\n");
  icdar.labels = "icdar";
  expect_error(ErrorKind::data, {"list.txt:2", "in quotes", "data.labels to tab"}, [&] { trained(icdar); });
  auto skips = by_list("a.png\ta\nwrong\na.png\tb\n");
  skips.pictures.on_error = "skip";
  testing::internal::CaptureStderr();
  EXPECT_THAT(trained(skips), ElementsAre("a", "b"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("list.txt:2"), HasSubstr("1 of 3 lines of"), HasSubstr("data.on_error is skip")));
}

TEST_F(WordSets, TextThatIsNoUtf8IsNamed) {
  expect_error(ErrorKind::data, {"list.txt:2", "no UTF-8"}, [&] { trained(by_list("a.png\ta\na.png\tCAF\xC9\n")); });
}

TEST_F(WordSets, HostileListsAreNamedReadably) {
  for (const auto* labels : {"tab", "icdar"}) {
    for (const auto& [before, after] : {std::pair("", ""), std::pair("a.png\t", "\n"), std::pair("", "\ta\n"),
                                        std::pair("a.png, \"", "\"\n"), std::pair("", ", \"a\"\n")}) {
      expect_readable_errors(labels, before, after, {"list.txt:1"}, [&](const std::string& text) {
        auto options = by_list(text);
        options.labels = labels;
        const auto words = ocr::load_words(options, Split::train);
        for (std::int64_t i = 0; i < words->size(); ++i) words->get(i, Chance(0, 0, i));
      });
    }
  }
  for (const auto* rule : {"too_long", "outside"}) {
    expect_readable_errors(rule, "a.png\t", "\n", {"list.txt:1"}, [&](const std::string& text) {
      auto options = by_list(text);
      (rule == std::string("too_long") ? options.limits.too_long : options.limits.outside) = "fail";
      ocr::load_words(options, Split::train);
    });
  }
  expect_readable_errors("dictionary", "a\n", "\nb\n", {"dictionary.txt"}, [&](const std::string& text) {
    auto options = by_list("a.png\ta\n");
    write_bytes(root() / "dictionary.txt", text);
    options.dictionary.dictionary = (root() / "dictionary.txt").string();
    ocr::load_words(options, Split::train);
  });
}

TEST_F(WordSets, APictureThatIsMissingOrCutOffIsNamedWithItsLine) {
  const auto png = picture_of_word("abc", 0);
  write_bytes(root() / "images/cut.png", png.substr(0, png.size() / 2));
  const auto words = ocr::load_words(by_list("a.png\ta\nnone.png\tb\ncut.png\tc\n"), Split::train);
  expect_error(ErrorKind::data, {"list.txt:2", "images/none.png", "data.on_error=skip"},
               [&] { words->get(1, Chance(0, 0, 1)); });
  expect_error(ErrorKind::data, {"list.txt:3", "images/cut.png"}, [&] { words->get(2, Chance(0, 0, 2)); });
}

TEST_F(WordSets, WordsWithoutUseAreLeftOutOfTrainingAndCounted) {
  auto options = of_words({"Stage", "", "CAFÉ", "...", std::string(25, 'a'), std::string(24, 'a')});
  testing::internal::CaptureStderr();
  EXPECT_THAT(trained(options), ElementsAre("Stage", "CAFÉ", std::string(24, 'a')));
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("1 of 6 words of data.train are empty and left out"),
            HasSubstr("1 of 6 words of data.train are longer than 24 characters and left out"),
            HasSubstr("1 of 6 words of data.train have no character of the dictionary and are left out"),
            HasSubstr("which are removed (data.outside: remove); the first is 'CAFÉ' ("), HasSubstr("list.txt:3)")));
  options.eval = options.train;
  options.eval_images = options.train_images;
  EXPECT_EQ(ocr::load_words(options, Split::test)->size(), 6);  // an evaluation has all
}

TEST_F(WordSets, AKeyMakesThemErrors) {
  auto options = of_words({"a", ""});
  options.limits.empty = "fail";
  expect_error(ErrorKind::data, {"data.empty", "list.txt:2", "is empty"}, [&] { trained(options); });
  options = of_words({"..."});
  options.limits.empty = "fail";
  expect_error(ErrorKind::data, {"data.empty", "list.txt:1", "'...'", "no character of the dictionary"},
               [&] { trained(options); });
  options = of_words({"a", "bcdef"});
  options.limits.max_text_len = 4;
  options.limits.too_long = "fail";
  expect_error(ErrorKind::data, {"data.too_long", "list.txt:2", "5 characters", "data.max_text_len is 4"},
               [&] { trained(options); });
  options = of_words({"a", "CAFÉ"});
  options.limits.outside = "fail";
  expect_error(ErrorKind::data, {"data.outside", "list.txt:2", "'É'"}, [&] { trained(options); });
  options.limits.outside = "drop";
  testing::internal::CaptureStderr();
  EXPECT_THAT(trained(options), ElementsAre("a"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("data.outside: drop"));
}

TEST_F(WordSets, FilesThatAreMissingAreNamedByTheirKey) {
  auto options = by_list("a.png\ta\n");
  options.train = {"none.txt"};
  expect_error(ErrorKind::config, {"data.train", "none.txt"}, [&] { trained(options); });
  options.train = {"images"};
  expect_error(ErrorKind::config, {"data.train", "no data.mdb in", "images"}, [&] { trained(options); });
  options.train = {};
  expect_error(ErrorKind::config, {"data.train", "empty list"}, [&] { trained(options); });
  expect_error(ErrorKind::config, {"data.train", "no lines"}, [&] { trained(by_list("\n\n")); });
}

TEST_F(WordSets, TheRootMayBeBelow) {
  auto options = by_list("a.png\ta\n");
  options.root = root().parent_path().string();
  options.train = {root().filename().string() + "/list.txt"};
  options.train_images = (root() / "images").string();
  EXPECT_THAT(trained(options), ElementsAre("a"));
  std::filesystem::create_directories(root() / "icdar/recognition");
  write_bytes(root() / "icdar/recognition/words.txt", "a.png\tb\n");
  options.root = root().string();
  options.train = {"words.txt"};
  EXPECT_THAT(trained(options), ElementsAre("b"));
  write_bytes(root() / "icdar/words.txt", "a.png\tc\n");  // which of the two?
  expect_error(ErrorKind::config, {"data.train", (root() / "words.txt").string()}, [&] { trained(options); });
}

TEST_F(WordSets, ListsAndTreesOfDatabasesAreOneDataSet) {
  write_lmdb(root() / "lmdb/ST",
             {{"num-samples", "1"}, {"image-000000001", picture_of_word("c", 0)}, {"label-000000001", "c"}});
  write_lmdb(root() / "lmdb/MJ/train", {{"num-samples", "2"},
                                        {"image-000000001", picture_of_word("a", 0)},
                                        {"label-000000001", "..."},
                                        {"image-000000002", picture_of_word("abc", 0)},
                                        {"label-000000002", "two"}});
  auto options = by_list("a.png\ta\n");
  options.train = {"lmdb", "list.txt"};
  const auto words = ocr::load_words(options, Split::train);
  EXPECT_THAT(labels_of(*words), ElementsAre("two", "c", "a"));
  const auto first = words->get(0, Chance(0, 0, 0));
  EXPECT_EQ(first.tensors.at(samples::kPictures).size(1), 72);
  EXPECT_EQ(first.texts.at(samples::kNames), (root() / "lmdb/MJ/train/data.mdb/image-000000002").string());
}

TEST_F(WordSets, ADamagedDatabaseIsNamed) {
  auto options = by_list("");
  options.train = {"lmdb"};
  const auto load = [&] { return ocr::load_words(options, Split::train); };
  write_lmdb(root() / "lmdb", {{"num-samples", "9"}, {"label-000000001", "a"}});
  expect_error(ErrorKind::data, {"num-samples", "is 9", "data.mdb"}, load);
  write_lmdb(root() / "lmdb", {{"num-samples", "2"}, {"image-000000001", picture_of_word("ab", 0)}});
  expect_error(ErrorKind::data, {"label-000000002", "data.mdb"}, load);
  options.pictures.on_error = "skip";
  testing::internal::CaptureStderr();
  EXPECT_THAT(labels_of(*load()), ElementsAre("a"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("1 of 2 words of"));
  const auto whole = read_file(root() / "lmdb/data.mdb");
  write_bytes(root() / "lmdb/data.mdb", whole.substr(0, whole.size() / 2));
  expect_error(ErrorKind::data, {"data.mdb", "cut off"}, load);
}

// The same words in MindOCR's form and in ICDAR's.
TEST(RealWords, AreReadFromBothKindsOfLists) {
  const auto* folder = std::getenv("LOCKSTEP_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "LOCKSTEP_TEST_DATA names no folder with icdar2015_sample/";
  ocr::WordsOptions options;
  options.root = (std::filesystem::path(folder) / "icdar2015_sample/recognition").string();
  options.train = {"train_rec_gt.txt"};
  options.train_images = "train/images";
  options.eval = {"test_rec_gt.txt"};
  options.eval_images = "test/images";
  testing::internal::CaptureStderr();
  const auto train = ocr::load_words(options, Split::train);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(train->size(), 599);  // but "...", of which nothing is left
  EXPECT_EQ(ocr::load_words(options, Split::test)->size(), 150);
  options.eval = {"test/Challenge4_Test_Task3_GT.txt"};
  options.labels = "icdar";
  EXPECT_EQ(ocr::load_words(options, Split::test)->size(), 150);
  options.eval = {"train/gt.txt"};
  options.eval_images = "train/images";
  const auto own = ocr::load_words(options, Split::test);
  ASSERT_EQ(own->size(), 600);
  EXPECT_EQ(own->get(0, Chance(0, 0, 0)).texts.at(samples::kLabels), "Genaxis Theatre");
  EXPECT_THAT(labels_of(*own), testing::IsSupersetOf({"READER\"", "\"SCAN\"", "CAFÉ", "World´s", "36,000,000"}));
}

}  // namespace
}  // namespace lockstep::test
