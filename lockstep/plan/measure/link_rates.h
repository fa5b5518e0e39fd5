// The measurement of links: bandwidth, latency and overlap of collectives.
#pragma once

#include <lockstep/plan/measure/measure.h>

namespace lockstep::plan {

/// Of a group whose ranks have equal links: the bandwidth and latency with which a ring of them would take as long as
/// an all_reduce of 32 MB and one of 1 KB were measured to take. A collective.
Link measure_link(const Group& group, const MeasureOptions& options);

/// Of all hosts of `group`, whose ranks on this host are `here`: what the link between hosts adds to that within.
Link measure_link_between_hosts(const Group& group, const Group& here, const Link& inside,
                                const MeasureOptions& options);

/// The share of an all_reduce that costs the computation beside it nothing, from 0 to 1.
double measure_overlap(const Group& group, const MeasureOptions& options);

}  // namespace lockstep::plan
