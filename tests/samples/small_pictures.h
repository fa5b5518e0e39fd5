// Lists of transforms for small pictures in memory, in both of their forms.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/data/picture_plan.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/transforms.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::test {

enum class Form {
  fastest,       ///< compiled, where the list can be
  step_by_step,  ///< on tensors, one step after the other: the reference, whose results are bit-equal
};

/// crop 32 with padding 4, flip, rescale by 1/255, CIFAR-10's normalize, hwc2chw.
inline const std::string kUsualList =
    "[random_crop: {size: 32, padding: 4}, random_horizontal_flip, rescale: {scale: 0.00392156862745098}, "
    "normalize: {mean: [0.4465, 0.4822, 0.4914], std: [0.2010, 0.1994, 0.2023]}, hwc2chw]";

/// The list, at line 1 of run.yaml.
inline samples::TransformList small_list(const std::string& list, const data::PictureShape& shape) {
  const auto source = parse_config("steps: " + list, "run.yaml");
  return samples::read_transforms(*source.root.find("steps"), "data.train_transforms", {},
                                  samples::shipped_transforms(), true, shape);
}

/// The float32 CHW values of a picture whose bytes are `pixels`, CHW.
inline std::vector<float> apply(const samples::TransformList& list, const data::PictureShape& shape,
                                std::span<const std::uint8_t> pixels, const data::SampleKey& key = {},
                                Form form = Form::fastest) {
  std::vector<float> out(data::picture_size(list.output), -1e9F);
  if (list.plan && form == Form::fastest) {
    data::PicturePlan::Scratch scratch;
    list.plan->apply(pixels, key, out, scratch);
    return out;
  }
  auto picture = torch::from_blob(const_cast<std::uint8_t*>(pixels.data()), {shape.channels, shape.height, shape.width},
                                  torch::kByte);
  samples::Sample sample{.tensors = {{samples::kPictures, picture.permute({1, 2, 0}).contiguous().clone()}}};
  const samples::Chance chance(key.seed, key.epoch, key.index);
  picture = list.steps(std::move(sample), chance).tensors.at(samples::kPictures).contiguous();
  EXPECT_EQ(picture.scalar_type(), torch::kFloat);
  EXPECT_EQ(picture.numel(), static_cast<std::int64_t>(out.size()));
  std::copy_n(picture.data_ptr<float>(), out.size(), out.begin());
  return out;
}

}  // namespace lockstep::test
