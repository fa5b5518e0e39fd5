// The parts that find text, and what stands in their place in a library without OpenCV.
#include <apps/ocr/detection/detection_parts.h>
#include <apps/ocr/missing_parts.h>
#include <apps/ocr/parts.h>
#include <apps/ocr/reading/word_crops.h>
#include <gtest/gtest.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/part_kinds.h>

#include <memory>
#include <set>
#include <string>

#include "base/expect_error.h"

namespace lockstep::test {
namespace {

std::set<std::string> names_in(const train::Parts& parts) {
  std::set<std::string> names;
  train::for_each_kind([&](std::string_view kind, std::string_view, auto member) {
    for (const auto& part : parts.*member) names.insert(std::string(kind) + " " + part.name);
  });
  return names;
}

TEST(DetectionParts, HaveTheSameNamesWithoutOpenCv) {
  train::Parts real, missing;
  ocr::add_detection_parts(real);
  ocr::add_missing_parts(missing);
  EXPECT_EQ(names_in(real), names_in(missing));
  EXPECT_TRUE(ocr::has_ocr());
}

TEST(DetectionParts, SayWhatToInstallWhereTheyAreMissing) {
  auto parts = train::shipped_parts();
  ocr::add_missing_parts(parts);
  const auto shared = std::make_shared<const train::Parts>(parts);
  const auto read = [&](const std::string& yaml) {
    return train::read_run_config(parse_config(yaml, "run.yaml"), train::ResolvedRun({}, shared));
  };
  const std::string rest = "optimizer: {lr: 0.1}\ntrain: {steps: 1}\n";
  expect_error(ErrorKind::unsupported, {"dbnet", "libopencv-imgproc-dev", "libpolyclipping-dev", "LOCKSTEP_WITH_OCR"},
               [&] { read("model: {name: dbnet, depth: 18}\ndata: {name: mnist, root: x}\n" + rest); });
  expect_error(ErrorKind::unsupported, {"text_boxes", "libopencv-imgproc-dev"},
               [&] { read("model: {name: mlp}\ndata: {name: text_boxes, root: x}\n" + rest); });
}

TEST(WordCrops, UndoThePerspective) {
  cv::Mat photograph = cv::Mat::zeros(100, 200, CV_8UC3);
  photograph(cv::Rect(20, 30, 60, 20)).setTo(cv::Scalar(255, 0, 0));
  const auto flat = ocr::cut_word(photograph, {{20, 30}, {80, 30}, {80, 50}, {20, 50}});
  EXPECT_EQ(flat.size(), cv::Size(60, 20));
  EXPECT_EQ(flat.at<cv::Vec3b>(10, 30), cv::Vec3b(255, 0, 0));
  EXPECT_EQ(ocr::cut_word(photograph, {{20, 30}, {30, 30}, {30, 90}, {20, 90}}).size(), cv::Size(60, 10));  // turned
  EXPECT_EQ(ocr::cut_word(photograph, {{20, 30}, {50, 28}, {80, 30}, {80, 50}, {20, 50}}).type(), CV_8UC3);
  EXPECT_EQ(ocr::cut_word(photograph, {{5, 5}, {5, 5}, {5, 5}, {5, 5}}).size(), cv::Size(1, 1));
}

}  // namespace
}  // namespace lockstep::test
