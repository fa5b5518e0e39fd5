// What may be written in a list of transforms for small pictures, and the messages for the rest.
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "samples/small_pictures.h"

namespace lockstep::test {
namespace {

using data::PictureShape;

constexpr PictureShape kCifar{3, 32, 32};

samples::TransformList build(const std::string& list, PictureShape shape = kCifar) { return small_list(list, shape); }

// The first step is on trial; those that make a valid list follow.
void expect_refused(const std::string& first, std::initializer_list<std::string_view> words) {
  expect_error(ErrorKind::config, words, [&] { build("[" + first + ", type_cast: {type: float32}, hwc2chw]"); });
}

TEST(SmallPictureLists, UsualList) {
  const auto list = build(kUsualList);
  EXPECT_EQ(list.output, kCifar);
  EXPECT_TRUE(list.plan);
  expect_words(list.text, {"3x32x32 -> random_crop {size: 32, padding: 4} -> random_horizontal_flip -> rescale",
                           "normalize", "0.4465, 0.4822, 0.4914", "hwc2chw -> 3x32x32 (compiled)"});
}

TEST(SmallPictureLists, NamesAsInMindSpore) {
  EXPECT_EQ(build("[RandomCrop: {size: [20, 24], padding: [4, 4, 4, 4]}, RandomHorizontalFlip, Resize: {size: [224, "
                  "200]}, Rescale: {scale: 1}, Normalize: {mean: 0, std: 1}, HWC2CHW, TypeCast: {type: float32}]")
                .output,
            (PictureShape{3, 224, 200}));
}

TEST(SmallPictureLists, PaddingOfOneTwoAndFourNumbers) {
  const auto most = [](const std::string& padding, int height, int width) {
    const auto list = [&](int h, int w) {
      return fmt::format("[random_crop: {{size: [{}, {}], padding: {}}}, to_tensor]", h, w, padding);
    };
    EXPECT_EQ(build(list(height, width)).output, (PictureShape{3, height, width}));
    expect_error(ErrorKind::config, {"random_crop"}, [&] { build(list(height + 1, width)); });
    expect_error(ErrorKind::config, {"random_crop"}, [&] { build(list(height, width + 1)); });
  };
  most("3", 38, 38);
  most("3.0", 38, 38);
  most("[1, 2]", 36, 34);
  most("[1, 2, 3, 4]", 38, 36);
}

TEST(SmallPictureLists, ResizeToOneNumberKeepsTheRatio) {
  const std::string list = "[resize: {size: 10}, rescale: {scale: 1}, hwc2chw]";
  EXPECT_EQ(build(list, {1, 20, 31}).output, (PictureShape{1, 10, 15}));
  EXPECT_EQ(build(list, {1, 5, 4}).output, (PictureShape{1, 12, 10}));
}

TEST(SmallPictureLists, UnknownTransform) {
  expect_refused("random_corp",
                 {"[data.train_transforms]", "'random_corp'", "did you mean 'random_crop'", "run.yaml:1"});
  expect_refused("blur", {"'blur'", "random_crop, random_erasing, random_horizontal_flip"});
}

TEST(SmallPictureLists, UnknownArgument) {
  expect_refused("random_crop: {sise: 32}", {"random_crop", "random_crop.sise'", "did you mean 'size'", "run.yaml:1"});
  expect_refused("hwc2chw: {size: 1}", {"hwc2chw.size'"});
  expect_refused("resize: {size: 8, size: 9}", {"size", "twice"});
}

TEST(SmallPictureLists, MissingArgument) {
  expect_refused("resize", {"resize.size", "must be given", "run.yaml:1"});
  expect_refused("rescale: {shift: 1}", {"rescale.scale", "must be given"});
  expect_refused("normalize: {mean: 1}", {"normalize.std", "must be given"});
  expect_refused("type_cast", {"type_cast.type", "must be given"});
}

TEST(SmallPictureLists, WrongTypes) {
  expect_refused("random_crop: {size: big}", {"random_crop.size", "'big'"});
  expect_refused("random_crop: {size: [1, 2, 3]}", {"size", "[height, width]", "3 numbers"});
  expect_refused("random_crop: {size: 8.5}", {"random_crop.size", "8.5"});
  expect_refused("random_crop: {size: 8, padding: [1, 2, 3]}", {"padding", "[left, top, right, bottom]"});
  expect_refused("random_horizontal_flip: {prob: [0.5]}", {"prob", "number", "list"});
  expect_refused("normalize: {mean: [1, 2], std: 1}", {"normalize", "2 mean", "3 channels"});
  expect_refused("type_cast: {type: 32}", {"type_cast.type", "float32", "int32", "32"});
  expect_refused("type_cast: {type: float64}", {"type_cast.type", "float32", "int32", "'float64'"});
}

TEST(SmallPictureLists, ValuesOutOfRange) {
  expect_refused("random_horizontal_flip: {prob: 1.5}", {"prob", "from 0 to 1", "1.5"});
  expect_refused("random_crop: {size: 0}", {"random_crop.size", "from 1 to 16384", "0"});
  expect_refused("random_crop: {size: 8, padding: -1}", {"random_crop.padding", "-1"});
  expect_refused("resize: {size: 1000000}", {"resize.size"});
  expect_refused("normalize: {mean: 0, std: [1, 0, 1]}", {"normalize.std", "0"});
  expect_refused("rescale: {scale: .nan}", {"rescale.scale"});
  expect_error(ErrorKind::config, {"resize", "16400"}, [] {
    build("[resize: {size: 4100}, rescale: {scale: 1}, hwc2chw]", {1, 10, 40});
  });
}

TEST(SmallPictureLists, CropLargerThanThePicture) {
  expect_refused("random_crop: {size: [33, 32]}", {"32 x 33", "32 x 32"});
  expect_refused("random_crop: {size: [32, 33]}", {"33 x 32", "32 x 32"});
  expect_refused("random_crop: {size: 41, padding: 4}", {"41 x 41", "40 x 40", "padding", "run.yaml:1"});
}

TEST(SmallPictureLists, OrderThatMakesNoSense) {
  expect_error(ErrorKind::config, {"resize works on HWC", "hwc2chw", "move resize", "run.yaml:1"},
               [] { build("[hwc2chw, resize: {size: 8}, rescale: {scale: 1}]"); });
  expect_error(ErrorKind::config, {"hwc2chw"}, [] { build("[hwc2chw, hwc2chw]"); });
}

TEST(SmallPictureLists, OutputMustBeChwFloat32) {
  expect_error(ErrorKind::config, {"HWC Byte", "CHW float32", "rescale", "and hwc2chw"}, [] { build("[]"); });
  expect_error(ErrorKind::config, {"CHW Byte", "normalize"}, [] { build("[hwc2chw]"); });
  expect_error(ErrorKind::config, {"HWC Float", "add hwc2chw", "run.yaml:1"}, [] { build("[rescale: {scale: 1}]"); });
  expect_error(ErrorKind::config, {"CHW Int"}, [] { build("[type_cast: {type: int32}, hwc2chw]"); });
}

}  // namespace
}  // namespace lockstep::test
