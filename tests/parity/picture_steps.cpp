// Decoded pictures and transforms, for comparison with test_pictures.py:
//   parity_picture_steps JOBS.yaml OUT.safetensors
// Each job has a name, a picture, and `transforms` as in a configuration, or a `step` of picture_steps.h with a value.
// Transforms get the sample `index`. `copies` makes a batch of rolled copies of the picture, with labels 0, 1, ...,
// whose labels are the result NAME.labels. `seed_of` names a step, whose seed is the result NAME.seed.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/data/pictures.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/samples/picture_steps.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

std::string text_of(const ConfigNode& job, std::string_view key) {
  const auto* node = job.find(key);
  return node == nullptr ? "" : node->scalar;
}

std::int64_t number_of(const ConfigNode& job, std::string_view key) {
  const auto text = text_of(job, key);
  return text.empty() ? 0 : std::stoll(text);
}

/// The first batch after the transforms.
samples::Batch run_batch(const ConfigNode& list, const at::Tensor& picture, std::int64_t copies) {
  std::vector<at::Tensor> pictures;
  for (std::int64_t i = 0; i < copies; ++i) pictures.push_back(picture.roll({5 * i, 3 * i}, {0, 1}));
  const auto dataset = samples::transformed(
      samples::from_tensors({{samples::kPictures, at::stack(pictures)}, {samples::kLabels, torch::arange(copies)}}),
      list, "transforms", samples::shipped_transforms());
  const data::ShardedSampler sampler({.dataset_size = copies, .shuffle = false, .batch_size = copies});
  const auto batches = dataset->batches(dataset, sampler, {.workers = 0, .prefetch = 1, .seed = 1});
  batches->start(0, 0);
  return batches->next().value();
}

void run_job(const ConfigNode& job, state::NamedTensors& results) {
  const auto name = text_of(job, "name"), file = text_of(job, "picture");
  const data::DecodeOptions decoding{.channels = text_of(job, "color") == "grey" ? 1 : 3};
  samples::Sample sample{.tensors = {{samples::kPictures, samples::to_tensor(data::read_picture(file, decoding))}}};
  auto& picture = sample.tensors[samples::kPictures];
  const samples::Chance chance(1, 0, number_of(job, "index"));
  const auto* list = job.find("transforms");
  if (const auto step = text_of(job, "step"); !step.empty()) {
    static const std::map<std::string, at::Tensor (*)(const at::Tensor&, double)> kSteps{
        {"brightness", samples::with_brightness},
        {"contrast", samples::with_contrast},
        {"saturation", samples::with_saturation},
        {"hue", samples::with_hue}};
    picture = kSteps.at(step)(picture, std::stod(text_of(job, "value")));
  } else if (const auto copies = number_of(job, "copies"); copies > 0) {
    const auto batch = run_batch(*list, picture, copies);
    picture = batch[samples::kPictures];
    results.emplace(name + ".labels", batch[samples::kLabels]);
  } else if (list != nullptr) {
    const auto transform = samples::transforms_of(*list, "transforms", samples::shipped_transforms());
    sample = transform(std::move(sample), chance);
  }
  results.emplace(name, sample.tensors.at(samples::kPictures).contiguous());
  if (const auto step = text_of(job, "seed_of"); !step.empty()) {
    results.emplace(name + ".seed", torch::tensor(static_cast<std::int64_t>(chance.seed(step))));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    torch::set_num_threads(1);
    state::NamedTensors results;
    const auto source = load_config(argv[1]);
    for (const auto& job : source.root.find("jobs")->items) run_job(job, results);
    state::save_safetensors(argv[2], results);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
