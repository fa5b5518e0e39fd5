/* lockstep/comm/shm/transfer.cpp (SlicedAllReduce) through staging: chunks, few buffers, three counters.
 *
 * Each rank stages its part of a chunk when everybody is done with what lay in the buffer, reduces its slice when all
 * have staged, and collects the others' slices when all have reduced. A rank does whichever of these it can, oldest
 * chunk first, as the code does; a second rank may be ahead by as many chunks as there are buffers. Checked: what is
 * read is always of the right chunk and state, and all chunks get through.
 *
 * -DBROKEN=1: a rank stages without asking whether the buffer is free.
 * -DBROKEN=2: a rank collects without waiting until the others have reduced.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define RANKS 3
#define BUFFERS 2
#define CHUNKS 4

byte produced[RANKS];
byte reduced[RANKS];
byte consumed[RANKS];
/* What rank r's buffer holds for the reader s (its slice): 2 * chunk + 1 staged, and for s == r: 2 * chunk + 2 reduced. */
#define STAGE(rank, chunk, slice) stage[((rank) * BUFFERS + (chunk) % BUFFERS) * RANKS + (slice)]
byte stage[RANKS * BUFFERS * RANKS];

#define FREE(c) ((c) < BUFFERS || (consumed[0] + BUFFERS > (c) && consumed[1] + BUFFERS > (c) && consumed[2] + BUFFERS > (c)))
#define ALL_PRODUCED(c) (produced[0] > (c) && produced[1] > (c) && produced[2] > (c))
#define ALL_REDUCED(c) (reduced[0] > (c) && reduced[1] > (c) && reduced[2] > (c))

proctype rank(byte me) {
  byte i;
  byte c;

  do
  :: consumed[me] == CHUNKS -> break
  :: consumed[me] < reduced[me] &&
#if BROKEN == 2
     true ->
#else
     ALL_REDUCED(consumed[me]) ->
#endif
    c = consumed[me];
    i = 0;
    do
    :: i == RANKS -> break
    :: i < RANKS && i == me -> i++
    :: i < RANKS && i != me -> assert(STAGE(i, c, i) == 2 * c + 2); i++
    od;
    consumed[me] = c + 1
  :: reduced[me] < produced[me] && ALL_PRODUCED(reduced[me]) ->
    c = reduced[me];
    i = 0;
    do
    :: i == RANKS -> break
    :: i < RANKS && i == me -> i++    /* its own slice comes from the tensor */
    :: i < RANKS && i != me -> assert(STAGE(i, c, me) == 2 * c + 1); i++
    od;
    STAGE(me, c, me) = 2 * c + 2;
    reduced[me] = c + 1
  :: produced[me] < CHUNKS &&
#if BROKEN == 1
     true ->
#else
     FREE(produced[me]) ->
#endif
    c = produced[me];
    i = 0;
    do
    :: i == RANKS -> break
    :: i < RANKS && i == me -> i++
    :: i < RANKS && i != me -> STAGE(me, c, i) = 2 * c + 1; i++
    od;
    produced[me] = c + 1
  od
}

init {
  atomic {
    run rank(0);
    run rank(1);
    run rank(2)
  }
}
