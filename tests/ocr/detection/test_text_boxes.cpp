// Labels of text in pictures, and the data set of them: good files, and each mistake that a file can have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/ocr/detection/text_boxes.h>
#include <lockstep/ocr/detection/text_labels.h>
#include <lockstep/ocr/detection/word_tensors.h>
#include <lockstep/samples/picture_sample.h>
#include <lockstep/samples/pictures.h>

#include <torch/torch.h>

#include <string>

#include "base/expect_error.h"
#include "data/files/picture_files.h"

namespace lockstep::test {
namespace {

using data::Split;
using samples::Chance;

constexpr const char* kGood =
    "a.jpg\t[{\"transcription\": \"MASA\", \"points\": [[31,10],[41,14],[41,21],[31,17]], \"difficult\": 0}, "
    "{\"transcription\": \"###\", \"points\": [[1,2],[5,2],[5,6],[3,8],[1,6]]}]";

TEST(TextLabels, AreAListOfWords) {
  const auto picture = ocr::parse_label_line(kGood);
  EXPECT_EQ(picture.name, "a.jpg");
  ASSERT_EQ(picture.words.size(), 2U);
  EXPECT_FALSE(picture.words[0].ignored);
  EXPECT_EQ(picture.words[0].polygon[2], cv::Point2d(41, 21));
  EXPECT_TRUE(picture.words[1].ignored);
  EXPECT_EQ(picture.words[1].polygon.size(), 5U);
  EXPECT_TRUE(ocr::parse_label_line("a.jpg\t[]").words.empty());
  EXPECT_TRUE(
      ocr::parse_label_line("a.jpg\t[{\"transcription\": \"*\", \"points\": [[0,0],[1,0],[1,1]]}]").words[0].ignored);
}

TEST(TextLabels, OfIcdarMayHaveCommasInTheirText) {
  const auto word = ocr::parse_icdar_line("377,117,463,117,465,130,378,130,Genaxis, Theatre");
  EXPECT_EQ(word.polygon[3], cv::Point2d(378, 130));
  EXPECT_FALSE(word.ignored);
  EXPECT_TRUE(ocr::parse_icdar_line("1,2,3,4,5,6,7,8,###").ignored);
  expect_error(ErrorKind::data, {"x1,y1", "1,2,3"}, [] { ocr::parse_icdar_line("1,2,3"); });
  expect_error(ErrorKind::data, {"x1,y1", "word_1.png"}, [] { ocr::parse_icdar_line("word_1.png, \"JOINT\""); });
  expect_error(ErrorKind::data, {"1000000000", "100000"}, [] { ocr::parse_icdar_line("1e9,2,3,4,5,6,7,8,a"); });
}

TEST(TextLabels, AreRefusedWithTheRule) {
  const auto refused = [](const std::string& line, std::initializer_list<std::string_view> words) {
    expect_error(ErrorKind::data, words, [&] { ocr::parse_label_line(line); });
  };
  const auto word = [](const std::string& points) {
    return "a.jpg\t[{\"transcription\": \"x\", \"points\": " + points + "}]";
  };
  refused("a.jpg [{}]", {"a tab", "a.jpg [{}]"});
  refused("\t[]", {"a tab"});
  refused("a.jpg\t[{\"transcription\"", {"JSON"});
  refused("a.jpg\t{}", {"a list of words", "{}"});
  refused("a.jpg\t[{\"points\": []}]", {"word 1", "transcription"});
  refused(word("[[0,0],[1,1]]"), {"word 1", "2 corners", "three"});
  refused(word("[[0,0],[1,1],[2]]"), {"word 1", "[2]", "[X, Y]"});
  refused(word("[[0,0],[1,1],[2,\"3\"]]"), {"word 1", "number"});
  refused(word("[[0,0],[1,1],[2,NaN]]"), {"JSON"});
  refused(word("[[0,0],[1,1],[2,1e9]]"), {"word 1", "1000000000", "100000"});
  refused(word("[[0,0],[1,1],[2,1e400]]"), {"JSON"});
}

class TextBoxes : public testing::Test {
 protected:
  TextBoxes() {
    for (const auto* name : {"train/a.jpg", "train/b.jpg", "test/c.jpg"}) {
      write_bytes(root() / name, jpeg_of(pattern(64, 48, 5), 64, 48));
    }
    write_bytes(root() / "train.txt", std::string(kGood) + "\r\nb.jpg\t[]\r\n");
    write_bytes(root() / "test.txt", "\xEF\xBB\xBF" + std::string("c.jpg\t[]\n"));
  }

  std::filesystem::path root() const { return folder_.path() / "detection"; }
  ocr::TextBoxesOptions options() const {
    return {.root = root().string(),
            .train = "train.txt",
            .train_pictures = "train",
            .eval = "test.txt",
            .eval_pictures = "test"};
  }

  TemporaryFolder folder_;
};

TEST_F(TextBoxes, HavePictureWordsAndFrame) {
  const auto train = ocr::load_text_boxes(options(), Split::train);
  ASSERT_EQ(train->size(), 2);
  const auto sample = train->get(0, Chance(0, 0, 0));
  EXPECT_EQ(sample.tensors.at(samples::kPictures).sizes(), (std::vector<std::int64_t>{48, 64, 3}));
  EXPECT_EQ(sample.tensors.at(ocr::kPolygons).sizes(), (std::vector<std::int64_t>{2, 5, 2}));
  EXPECT_EQ(sample.tensors.at(ocr::kPolygons)[0][4][0].item<double>(), 31);  // the last corner repeated
  EXPECT_TRUE(torch::equal(sample.tensors.at(ocr::kIgnored), torch::tensor({false, true})));
  EXPECT_TRUE(torch::equal(sample.tensors.at(ocr::kFrame), torch::tensor({48.0, 64.0, 1.0, 1.0}, torch::kDouble)));
  const auto none = train->get(1, Chance(0, 0, 1));
  EXPECT_EQ(none.tensors.at(ocr::kTruth).size(0), 0);
  const auto batch = train->collate({sample, none});
  EXPECT_EQ(batch.lists.at(ocr::kTruth).size(), 2U);
  EXPECT_EQ(ocr::load_text_boxes(options(), Split::test)->size(), 1);
  auto without = options();
  without.eval.clear();
  EXPECT_EQ(ocr::load_text_boxes(without, Split::test), nullptr);
}

TEST_F(TextBoxes, AreFoundBelowTheRoot) {
  auto above = options();
  above.root = folder_.path().string();
  EXPECT_EQ(ocr::load_text_boxes(above, Split::train)->get(0, Chance(0, 0, 0)).tensors.at(samples::kPictures).size(0),
            48);
}

TEST_F(TextBoxes, ComeFromIcdarsFilesToo) {
  write_bytes(root() / "gt/gt_a.txt",
              "\xEF\xBB\xBF"
              "1,2,30,2,30,12,1,12,a word\r\n1,20,30,20,30,32,1,32,###\r\n");
  write_bytes(root() / "gt/gt_b.txt", "");
  auto icdar = options();
  icdar.train = "gt";
  const auto train = ocr::load_text_boxes(icdar, Split::train);
  ASSERT_EQ(train->size(), 2);
  EXPECT_TRUE(torch::equal(train->get(0, Chance(0, 0, 0)).tensors.at(ocr::kIgnored), torch::tensor({false, true})));
  std::filesystem::remove(root() / "gt/gt_b.txt");
  expect_error(ErrorKind::data, {"b.jpg", "gt_b.txt"}, [&] { ocr::load_text_boxes(icdar, Split::train); });
  write_bytes(root() / "gt/gt_b.txt", "1,2,30,2,30,12,1,12,good\n1,2,nan,2,30,12,1,12,bad\n");
  expect_error(ErrorKind::data, {"gt_b.txt:2"}, [&] { ocr::load_text_boxes(icdar, Split::train); });
}

TEST_F(TextBoxes, NameTheLineOfAMistake) {
  write_bytes(root() / "train.txt", std::string(kGood) + "\nb.jpg\t[{}]\n");
  expect_error(ErrorKind::data, {"word 1", "train.txt:2"}, [&] { ocr::load_text_boxes(options(), Split::train); });
  auto skipping = options();
  skipping.on_error = "skip";
  const auto rest = ocr::load_text_boxes(skipping, Split::train);
  EXPECT_EQ(rest->size(), 1);
  EXPECT_TRUE(rest->leaves_out_errors());
  write_bytes(root() / "train.txt", "");
  expect_error(ErrorKind::config, {"data.train", "no picture"}, [&] { ocr::load_text_boxes(options(), Split::train); });
  std::filesystem::remove(root() / "train.txt");
  expect_error(ErrorKind::config, {"data.train", "train.txt"}, [&] { ocr::load_text_boxes(options(), Split::train); });
}

TEST_F(TextBoxes, NameAPictureThatCannotBeRead) {
  const auto train = ocr::load_text_boxes(options(), Split::train);
  auto bytes = jpeg_of(pattern(64, 48, 5), 64, 48);
  write_bytes(root() / "train/b.jpg", bytes.substr(0, bytes.size() / 2));
  expect_error(ErrorKind::data, {"b.jpg", "train.txt:2"}, [&] { train->get(1, Chance(0, 0, 1)); });
  std::filesystem::remove(root() / "train/b.jpg");
  expect_error(ErrorKind::data, {"b.jpg", "train.txt:2"}, [&] { train->get(1, Chance(0, 0, 1)); });
}

}  // namespace
}  // namespace lockstep::test
