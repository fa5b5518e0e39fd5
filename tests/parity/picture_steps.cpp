// Decoded pictures and transforms, for comparison with test_pictures.py:
//   parity_picture_steps JOBS.yaml OUT.safetensors
// Each job has a name, a picture, and `transforms` as in a configuration, or a `step` of picture_steps.h with a value.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/data/files/picture.h>
#include <lockstep/samples/picture_sample.h>
#include <lockstep/samples/picture_steps.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/samples/transform.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string>

namespace {

using namespace lockstep;

std::string text_of(const ConfigNode& job, std::string_view key) {
  const auto* node = job.find(key);
  return node == nullptr ? "" : node->scalar;
}

at::Tensor run_job(const ConfigNode& job) {
  const auto file = text_of(job, "picture");
  const data::DecodeOptions decoding{.channels = text_of(job, "color") == "grey" ? 1 : 3};
  samples::Sample sample{.tensors = {{samples::kPictures, samples::to_tensor(data::read_picture(file, decoding))}}};
  if (const auto step = text_of(job, "step"); !step.empty()) {
    static const std::map<std::string, at::Tensor (*)(const at::Tensor&, double)> kSteps{
        {"brightness", samples::with_brightness},
        {"contrast", samples::with_contrast},
        {"saturation", samples::with_saturation},
        {"hue", samples::with_hue}};
    return kSteps.at(step)(sample.tensors[samples::kPictures], std::stod(text_of(job, "value")));
  }
  if (const auto* list = job.find("transforms")) {
    const auto transform = samples::transforms_of(*list, "transforms", samples::shipped_transforms());
    sample = transform(std::move(sample), samples::Chance(1, 0, 0));
  }
  return sample.tensors[samples::kPictures];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    torch::set_num_threads(1);
    state::NamedTensors results;
    const auto source = load_config(argv[1]);
    for (const auto& job : source.root.find("jobs")->items) {
      results.emplace(text_of(job, "name"), run_job(job).contiguous());
    }
    state::save_safetensors(argv[2], results);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
