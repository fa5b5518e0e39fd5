// Labels of text in pictures, and the data set of them: good files, and each mistake that a file can have.
#include <apps/ocr/detection/text_boxes.h>
#include <apps/ocr/detection/text_labels.h>
#include <apps/ocr/detection/word_tensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/data/files/reports.h>
#include <lockstep/samples/pictures.h>

#include <torch/torch.h>

#include <string>

#include "base/expect_error.h"
#include "data/files/picture_files.h"
#include "support/hostile_text.h"

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
  expect_error(ErrorKind::data, {"x1,y1", "word_1.png", "data.name words"},
               [] { ocr::parse_icdar_line("word_1.png, \"JOINT\""); });
  expect_error(ErrorKind::data, {"1000000000", "100000"}, [] { ocr::parse_icdar_line("1e9,2,3,4,5,6,7,8,a"); });
}

TEST(TextLabels, OfIcdarHaveThreeForms) {
  using ocr::WordForm;
  const auto blanks = ocr::parse_icdar_line("377, 117, 463, 117, 465, 130, 378, 130, ###");
  EXPECT_EQ(blanks.polygon[2], cv::Point2d(465, 130));
  EXPECT_TRUE(blanks.ignored);
  EXPECT_TRUE(ocr::parse_icdar_line("1,2,9,2,9,8,1,8,Latin,###", WordForm::mlt).ignored);
  EXPECT_TRUE(ocr::parse_icdar_line("1,2,9,2,9,8,1,8,None,###", WordForm::mlt).ignored);
  EXPECT_FALSE(ocr::parse_icdar_line("1,2,9,2,9,8,1,8,Latin,###,#", WordForm::mlt).ignored);
  expect_error(ErrorKind::data, {"SCRIPT", "1,2,9,2,9,8,1,8,word"},
               [] { ocr::parse_icdar_line("1,2,9,2,9,8,1,8,word", WordForm::mlt); });
  for (const auto* line : {"38 43 920 215 \"Tiredness, kills\"", "38, 43, 920, 215, \"Tiredness, kills\""}) {
    const auto word = ocr::parse_icdar_line(line, WordForm::icdar2013);
    EXPECT_EQ(word.polygon, (ocr::Polygon{{38, 43}, {920, 43}, {920, 215}, {38, 215}})) << line;
    EXPECT_FALSE(word.ignored);
  }
  EXPECT_TRUE(ocr::parse_icdar_line("38, 43, 920, 215, \"###\"", WordForm::icdar2013).ignored);
  expect_error(ErrorKind::data, {"LEFT up to RIGHT"},
               [] { ocr::parse_icdar_line("38 43 20 215 \"x\"", WordForm::icdar2013); });
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
  expect_error(ErrorKind::data, {"word 1", "train.txt:2", "data.on_error=skip leaves it out"},
               [&] { ocr::load_text_boxes(options(), Split::train); });
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
  expect_error(ErrorKind::data, {"b.jpg", "train.txt:2", "data.on_error=skip"},
               [&] { train->get(1, Chance(0, 0, 1)); });
  std::filesystem::remove(root() / "train/b.jpg");
  expect_error(ErrorKind::data, {"b.jpg", "train.txt:2"}, [&] { train->get(1, Chance(0, 0, 1)); });
}

/// Which words of the first picture count neither way.
at::Tensor ignored_in(const ocr::TextBoxesOptions& options) {
  return ocr::load_text_boxes(options, Split::train)->get(0, Chance(0, 0, 0)).tensors.at(ocr::kIgnored);
}

TEST_F(TextBoxes, OfMltAndOf2013AreRecognisedAndAKeyOverrules) {
  auto options = this->options();
  options.train = "gt";
  const std::string box = "1,2,30,2,30,12,1,12,";
  write_bytes(root() / "gt/gt_a.txt", box + "Latin,###\n" + box + "Arabic,word\n" + box + "Latin,a, b\n");
  write_bytes(root() / "gt/gt_b.txt", box + "None,###\n");
  EXPECT_TRUE(torch::equal(ignored_in(options), torch::tensor({true, false, false})));
  options.labels = "icdar2015";
  {
    const data::HeardReports heard;
    EXPECT_TRUE(torch::equal(ignored_in(options), torch::tensor({false, false, false})));
    ASSERT_EQ(heard.lines().size(), 1U);
    EXPECT_THAT(heard.lines()[0], testing::AllOf(testing::HasSubstr("4 of 4 lines"), testing::HasSubstr("gt_a.txt:1"),
                                                 testing::HasSubstr("mlt"), testing::HasSubstr("data.labels")));
  }
  // A text that begins with a script's name makes no MLT.
  options.labels = "auto";
  write_bytes(root() / "gt/gt_a.txt", box + "###\n" + box + "Latin,###\n" + box + "word\n");
  write_bytes(root() / "gt/gt_b.txt", "");
  EXPECT_TRUE(torch::equal(ignored_in(options), torch::tensor({true, false, false})));
  {
    options.labels = "icdar2015";
    const data::HeardReports heard;
    ignored_in(options);
    EXPECT_EQ(heard.lines().size(), 0U) << "no doubt";
    options.labels = "auto";
  }

  write_bytes(root() / "gt/gt_a.txt", "38 43 920 215 \"Tiredness\"\n275 264 665 450 \"###\"\n");
  write_bytes(root() / "gt/gt_b.txt", "1, 2, 30, 12, \"a\"\n");
  EXPECT_TRUE(torch::equal(ignored_in(options), torch::tensor({false, true})));

  options.labels = "list";
  expect_error(ErrorKind::config, {"data.labels", "list", "folder"},
               [&] { ocr::load_text_boxes(options, Split::train); });
  options.labels = "mlt";
  options.train = "train.txt";
  expect_error(ErrorKind::config, {"data.labels", "mlt", "train.txt"},
               [&] { ocr::load_text_boxes(options, Split::train); });
}

TEST_F(TextBoxes, LabelFilesAreNamedAsThePicturesToo) {
  auto options = this->options();
  options.train = "gt";
  write_bytes(root() / "gt/a.txt", "1,2,30,2,30,12,1,12,###\n");
  write_bytes(root() / "gt/gt_b.txt", "");
  EXPECT_TRUE(torch::equal(ignored_in(options), torch::tensor({true})));
}

TEST_F(TextBoxes, OfOtherProgramsAreNamed) {
  auto options = this->options();
  options.train = "gt";
  write_bytes(root() / "gt/gt_b.txt", "");
  for (const auto& [line, name] :
       {std::pair("x: [[1 2 3 4]], y: [[1 2 3 4]], ornt: [u'c'], transcriptions: [u'PETROSAINS']", "Total-Text"),
        std::pair("1,2,30,2,30,12,20,12,10,12,1,12,####word", "CTW1500"),
        std::pair("<annotation><object>", "Pascal VOC"), std::pair("{\"gt_1\": [{\"transcription\": \"a\"}]}", "ArT"),
        std::pair("a.jpg\t[{\"transcription\": \"a\", \"points\": [[0,0],[1,0],[1,1]]}]", "PaddleOCR")}) {
    write_bytes(root() / "gt/gt_a.txt", std::string(line) + "\n");
    expect_error(ErrorKind::config, {"data.train", name, "gt_a.txt:1"},
                 [&] { ocr::load_text_boxes(options, Split::train); });
  }
  options.train = "train.txt";
  for (const auto& [line, words] :
       {std::pair("{\"gt_1\": []}", "LSVT"), std::pair("1,2,30,2,30,12,1,12,word", "gt_NAME.txt"),
        std::pair("[\"a.jpg\", \"b.jpg\"]\t[]", "takes one by chance")}) {
    write_bytes(root() / "train.txt", std::string(line) + "\n");
    expect_error(ErrorKind::data, {words, "train.txt:1"}, [&] { ocr::load_text_boxes(options, Split::train); });
  }
}

TEST_F(TextBoxes, PolygonsThatCrossThemselvesAreMendedAndSaid) {
  const data::HeardReports heard;
  write_bytes(root() / "train.txt",
              "a.jpg\t[{\"transcription\": \"bow tie\", \"points\": [[1,2],[30,12],[30,2],[1,12]]}, "
              "{\"transcription\": \"line\", \"points\": [[1,2],[30,12],[30,12],[1,2]]}]\n");
  const auto sample = ocr::load_text_boxes(options(), Split::train)->get(0, Chance(0, 0, 0));
  EXPECT_TRUE(torch::equal(sample.tensors.at(ocr::kIgnored), torch::tensor({false, true})));
  EXPECT_EQ(ocr::area(ocr::words_of(sample)->front().polygon), 290);
  ASSERT_EQ(heard.lines().size(), 2U);
  EXPECT_THAT(heard.lines()[0], testing::HasSubstr("put in order: word 1 of"));
  EXPECT_THAT(heard.lines()[1], testing::HasSubstr("no area"));
}

TEST_F(TextBoxes, WordsThatCannotBeReadBecomeDontCareAndPicturesWithoutAnyAreLeftOut) {
  auto options = this->options();
  options.train = "gt";
  options.on_error = "skip";
  // The picture a has a good line, and one with a corner that is no number; no line of b can be read.
  write_bytes(root() / "gt/gt_a.txt", "1,2,30,2,30,12,1,12,good\n1,20,x,20,30,32,1,32,bad\n");
  write_bytes(root() / "gt/gt_b.txt", "1,20,x,20,30,32,1,32,bad\n");
  {
    const data::HeardReports heard;
    const auto train = ocr::load_text_boxes(options, Split::train);
    ASSERT_EQ(train->size(), 1);
    const auto sample = train->get(0, Chance(0, 0, 0));
    EXPECT_TRUE(torch::equal(sample.tensors.at(ocr::kIgnored), torch::tensor({false, true})));
    EXPECT_EQ(ocr::bounds(ocr::words_of(sample)->back().polygon), cv::Rect2d(1, 20, 29, 12));
    ASSERT_EQ(heard.lines().size(), 2U);
    EXPECT_THAT(heard.lines()[1], testing::AllOf(testing::HasSubstr("1 of 2 labels"), testing::HasSubstr("left out")));
    EXPECT_THAT(heard.lines()[0], testing::AllOf(testing::HasSubstr("don't care"), testing::HasSubstr("gt_a.txt:2")));
  }
  // Where not even a place can be read, the picture is left out: what is not text there is not known.
  write_bytes(root() / "gt/gt_b.txt", "1,20,30,20,30,32,1,32,good\nnot a word\n");
  EXPECT_EQ(ocr::load_text_boxes(options, Split::train)->size(), 1);
  options.train = "train.txt";
  write_bytes(root() / "train.txt",
              std::string(kGood).substr(0, std::string(kGood).size() - 1) +
                  ", {\"transcription\": 7, \"points\": [[1,20],[30,20],[30,32],[1,32]]}]\nb.jpg\t[{}]\n");
  EXPECT_EQ(ocr::load_text_boxes(options, Split::train)->size(), 1);
  EXPECT_TRUE(torch::equal(ignored_in(options), torch::tensor({false, true, true})));
}

TEST_F(TextBoxes, FilesThatDoNotBelongAreCounted) {
  auto options = this->options();
  options.train = "gt";
  for (const auto* name : {"gt_a.txt", "gt_b.txt", "gt_gone.txt"}) write_bytes(root() / "gt" / name, "");
  write_bytes(root() / "train/._a.jpg", "macOS");
  write_bytes(root() / "train/c.gif", "GIF89a");
  const data::HeardReports heard;
  EXPECT_EQ(ocr::load_text_boxes(options, Split::train)->size(), 2);
  ASSERT_EQ(heard.lines().size(), 2U);
  EXPECT_THAT(heard.lines()[0], testing::HasSubstr("c.gif"));
  EXPECT_THAT(heard.lines()[1], testing::HasSubstr("gt_gone.txt"));
}

TEST_F(TextBoxes, HostileLabelsAreNamedReadably) {
  const auto read = [&](const ocr::TextBoxesOptions& options, const std::string& file) {
    return [=, this](const std::string& text) {
      write_bytes(root() / file, text);
      const auto train = ocr::load_text_boxes(options, Split::train);
      for (std::int64_t i = 0; i < train->size(); ++i) train->get(i, Chance(0, 0, i));
    };
  };
  const std::string points = "\"points\": [[1,2],[30,2],[30,12],[1,12]]";
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"", "\t[]\n"},
           {"[\"", "\"]\t[]\n"},
           {"a.jpg\t", "\n"},
           {"a.jpg\t\"", "\"\n"},
           {"a.jpg\t[\"", "\"]\n"},
           {"a.jpg\t[{\"transcription\": \"", "\", " + points + "}]\n"},
           {"a.jpg\t[{\"transcription\": \"", "\"}]\n"},
           {"a.jpg\t[{\"transcription\": \"a\", \"points\": [[1, \"", "\"]]}]\n"},
           {"a.jpg\t[{\"transcription\": \"a\", \"points\": [\"", "\"]}]\n"}}) {
    expect_readable_errors("list of words", before, after, {"train.txt:1"}, read(options(), "train.txt"));
  }
  auto folder = options();
  folder.train = "gt";
  for (const auto* labels : {"auto", "icdar2015", "mlt", "icdar2013"}) {
    folder.labels = labels;
    for (const auto& [before, after] :
         std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                          {"1,2,30,2,30,12,1,12,", "\n"},
                                                          {"1,2,30,2,30,12,1,", ",a\n"},
                                                          {"1 2 30 12 \"", "\"\n"},
                                                          {"1 2 30 ", " \"a\"\n"},
                                                          {"1,2,30,2,30,12,1,12,Latin,", "\n"},
                                                          {"{\"", "\": 1}\n"},
                                                          {"x: ", "\n"}}) {
      write_bytes(root() / "gt/gt_b.txt", "");
      expect_readable_errors(std::string("words of ") + labels, before, after, {"gt_a.txt:1"},
                             read(folder, "gt/gt_a.txt"));
    }
  }
}

}  // namespace
}  // namespace lockstep::test
