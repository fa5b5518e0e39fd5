// What may be written in a configuration, and what is said about the rest.
#include <gtest/gtest.h>
#include <lockstep/data/loader.h>

#include <limits>

#include "base/expect_error.h"
#include "data/data_files.h"

namespace lockstep::data {
namespace {

using test::expect_error;
using test::spec;
using Numbers = std::vector<double>;

constexpr PictureShape kCifar{3, 32, 32};

Pipeline build(const std::vector<TransformSpec>& specs, PictureShape shape = kCifar) { return {specs, shape}; }

// The first transform is on trial; those that make a valid pipeline follow.
void expect_refused(const TransformSpec& first, std::initializer_list<std::string_view> words) {
  expect_error(ErrorKind::config, words, [&] {
    build({first, spec("type_cast", {{"type", "float32"}}), spec("hwc2chw")});
  });
}

TEST(TransformSpecs, UsualChain) {
  const Pipeline pipeline = build(test::usual_transforms());
  EXPECT_EQ(pipeline.output(), kCifar);
  EXPECT_TRUE(pipeline.is_fused());
  test::expect_words(pipeline.describe(),
                     {"3x32x32 -> random_crop 32x32 padding 4,4,4,4 -> random_horizontal_flip 0.5 -> rescale",
                      "normalize", "0.4465,0.4822,0.4914", "hwc2chw -> 3x32x32 (fused)"});
}

TEST(TransformSpecs, NamesAsInMindSpore) {
  EXPECT_EQ(build({spec("RandomCrop", {{"size", Numbers{20, 24}}, {"padding", Numbers{4, 4, 4, 4}}}),
                   spec("RandomHorizontalFlip"), spec("Resize", {{"size", Numbers{224, 200}}}),
                   spec("Rescale", {{"scale", 1.0}}), spec("Normalize", {{"mean", 0.0}, {"std", 1.0}}), spec("HWC2CHW"),
                   spec("TypeCast", {{"type", "float32"}})})
                .output(),
            (PictureShape{3, 224, 200}));
}

TEST(TransformSpecs, PaddingOfOneTwoAndFourNumbers) {
  const auto text = [](const TransformValue& padding) {
    return build({spec("random_crop", {{"size", 8.0}, {"padding", padding}}), spec("rescale", {{"scale", 1.0}}),
                  spec("hwc2chw")})
        .describe();
  };
  test::expect_words(text(3.0), {"padding 3,3,3,3"});
  test::expect_words(text(Numbers{1, 2}), {"padding 1,2,1,2"});
  test::expect_words(text(Numbers{1, 2, 3, 4}), {"padding 1,2,3,4"});
}

TEST(TransformSpecs, ResizeToOneNumberKeepsTheRatio) {
  const std::vector<TransformSpec> specs{spec("resize", {{"size", 10.0}}), spec("rescale", {{"scale", 1.0}}),
                                         spec("hwc2chw")};
  EXPECT_EQ(build(specs, {1, 20, 31}).output(), (PictureShape{1, 10, 15}));
  EXPECT_EQ(build(specs, {1, 5, 4}).output(), (PictureShape{1, 12, 10}));
}

TEST(TransformSpecs, UnknownTransform) {
  expect_refused(spec("random_corp", {}, 17),
                 {"[transforms]", "'random_corp'", "did you mean 'random_crop'", "run.yaml:17"});
  expect_refused(spec("color_jitter"), {"'color_jitter'", "random_crop, random_horizontal_flip, resize"});
}

TEST(TransformSpecs, UnknownArgument) {
  TransformSpec crop = spec("random_crop", {{"sise", 32.0}}, 4);
  crop.arguments[0].position.line = 5;
  expect_refused(crop, {"random_crop", "'sise'", "size, padding", "did you mean 'size'", "run.yaml:5"});
  expect_refused(spec("hwc2chw", {{"size", 1.0}}), {"hwc2chw takes no arguments", "'size'"});
  expect_refused(spec("resize", {{"size", 8.0}, {"size", 9.0}}), {"resize.size", "twice"});
}

TEST(TransformSpecs, MissingArgument) {
  expect_refused(spec("resize", {}, 9), {"resize needs the argument 'size'", "run.yaml:9"});
  expect_refused(spec("rescale", {{"shift", 1.0}}), {"rescale needs the argument 'scale'"});
  expect_refused(spec("normalize", {{"mean", 1.0}}), {"normalize needs the argument 'std'"});
  expect_refused(spec("type_cast"), {"type_cast needs the argument 'type'"});
}

TEST(TransformSpecs, WrongTypes) {
  expect_refused(spec("random_crop", {{"size", "big"}}),
                 {"random_crop.size", "a number or a list [height, width]", "'big'"});
  expect_refused(spec("random_crop", {{"size", Numbers{1, 2, 3}}}), {"random_crop.size", "[1, 2, 3]"});
  expect_refused(spec("random_crop", {{"size", 8.5}}), {"random_crop.size", "whole number", "8.5"});
  expect_refused(spec("random_crop", {{"size", 8.0}, {"padding", Numbers{1, 2, 3}}}),
                 {"padding", "[left, top, right, bottom]"});
  expect_refused(spec("random_horizontal_flip", {{"prob", Numbers{0.5}}}), {"prob", "must be a number", "[0.5]"});
  expect_refused(spec("normalize", {{"mean", Numbers{1, 2}}, {"std", 1.0}}), {"normalize.mean", "list of 3", "[1, 2]"});
  expect_refused(spec("type_cast", {{"type", 32.0}}), {"type_cast.type", "float32, int32", "32"});
  expect_refused(spec("type_cast", {{"type", "float64"}}), {"type_cast.type", "float32, int32", "'float64'"});
}

TEST(TransformSpecs, ValuesOutOfRange) {
  expect_refused(spec("random_horizontal_flip", {{"prob", 1.5}}), {"prob", "from 0 to 1", "1.5"});
  expect_refused(spec("random_crop", {{"size", 0.0}}), {"random_crop.size", "from 1 to 16384", "0"});
  expect_refused(spec("random_crop", {{"size", 8.0}, {"padding", -1.0}}), {"random_crop.padding", "-1"});
  expect_refused(spec("resize", {{"size", 1e6}}), {"resize.size"});
  expect_refused(spec("normalize", {{"mean", 0.0}, {"std", Numbers{1, 0, 1}}}), {"normalize.std", "[1, 0, 1]"});
  expect_refused(spec("rescale", {{"scale", std::numeric_limits<double>::quiet_NaN()}}), {"rescale.scale"});
  expect_error(ErrorKind::config, {"resize", "16400"}, [] {
    build({spec("resize", {{"size", 4100.0}}), spec("rescale", {{"scale", 1.0}}), spec("hwc2chw")}, {1, 10, 40});
  });
}

TEST(TransformSpecs, CropLargerThanThePicture) {
  expect_refused(spec("random_crop", {{"size", Numbers{33, 32}}}), {"33x32", "32x32"});
  expect_refused(spec("random_crop", {{"size", Numbers{32, 33}}}), {"32x33", "32x32"});
  expect_refused(spec("random_crop", {{"size", 41.0}, {"padding", 4.0}}, 3),
                 {"41x41", "40x40", "padding", "run.yaml:3"});
}

TEST(TransformSpecs, OrderThatMakesNoSense) {
  expect_error(ErrorKind::config, {"resize works on HWC", "move hwc2chw to the end", "run.yaml:2"}, [] {
    build({spec("hwc2chw", {}, 1), spec("resize", {{"size", 8.0}}, 2), spec("rescale", {{"scale", 1.0}}, 3)});
  });
  expect_error(ErrorKind::config, {"hwc2chw"}, [] { build({spec("hwc2chw"), spec("hwc2chw")}); });
}

TEST(TransformSpecs, OutputMustBeChwFloat32) {
  expect_error(ErrorKind::config, {"HWC uint8", "CHW float32", "rescale", "and hwc2chw"}, [] { build({}); });
  expect_error(ErrorKind::config, {"CHW uint8", "normalize"}, [] { build({spec("hwc2chw")}); });
  expect_error(ErrorKind::config, {"HWC float32", "add hwc2chw", "run.yaml:6"}, [] {
    build({spec("rescale", {{"scale", 1.0}}, 6)});
  });
  expect_error(ErrorKind::config, {"CHW int32"}, [] {
    build({spec("type_cast", {{"type", "int32"}}), spec("hwc2chw")});
  });
}

TEST(TransformSpecs, PipelineChecksItsBuffers) {
  const Pipeline pipeline = build(test::usual_transforms());
  Pipeline::Scratch scratch;
  std::vector<float> out(3 * 32 * 32);
  expect_error(ErrorKind::invalid_argument, {"3071 bytes", "3072"},
               [&] { pipeline.apply(std::vector<std::uint8_t>(3071), {}, out, scratch); });
  out.pop_back();
  expect_error(ErrorKind::invalid_argument, {"3071 floats"},
               [&] { pipeline.apply(std::vector<std::uint8_t>(3072), {}, out, scratch); });
  expect_error(ErrorKind::invalid_argument, {"0x32x32"}, [] { build(test::usual_transforms(), {0, 32, 32}); });
}

}  // namespace
}  // namespace lockstep::data
