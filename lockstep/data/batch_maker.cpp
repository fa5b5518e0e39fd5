#include <lockstep/data/batch_maker.h>

#include <span>

namespace lockstep::data {

bool BatchMaker::fill(Batch& batch, const EpochRun& run, std::int64_t step, Pipeline::Scratch& scratch,
                      const std::function<bool()>& cancelled) const {
  const std::span<const std::int64_t> indices = run.order.batch(step);
  const std::size_t picture = picture_size(pipeline.output());
  batch.count = static_cast<std::int64_t>(indices.size());
  batch.shape = pipeline.output();
  batch.epoch = run.epoch;
  batch.step = step;
  batch.global_count = sampler.global_batch_size(step);
  batch.indices.assign(indices.begin(), indices.end());
  batch.labels.resize(indices.size());
  batch.pixels.resize(indices.size() * picture);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (cancelled()) return false;
    const Record record = (*dataset)[indices[i]];
    batch.labels[i] = record.label;
    pipeline.apply(record.pixels, SampleKey{seed, run.epoch, indices[i]},
                   std::span(batch.pixels).subspan(i * picture, picture), scratch);
  }
  return true;
}

}  // namespace lockstep::data
