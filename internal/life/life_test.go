// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package life_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/life"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWhy = errors.New("why")

type key struct{}

// under returns a context that carries and follows ctx.
func under(ctx context.Context) *life.Context {
	c := new(life.Context)
	c.Carry(ctx)
	c.Follow(ctx)
	return c
}

// background returns a context that never ends.
func background() context.Context { return context.Background() }

// end returns the state of a context: its channel, error and cause.
func end(ctx context.Context) string {
	select {
	case <-ctx.Done():
		return fmt.Sprint("closed ", ctx.Err(), ", ", context.Cause(ctx))
	default:
		return fmt.Sprint("open ", ctx.Err(), ", ", context.Cause(ctx))
	}
}

// Contexts end like those of the standard library, for every order of parents and
// children and every cause, whether Done was called before or not.
func TestEndsAsTheStandardOnesDo(t *testing.T) {
	kinds := map[string]func(context.Context) (context.Context, context.CancelCauseFunc){
		"standard": context.WithCancelCause,
		"ours": func(ctx context.Context) (context.Context, context.CancelCauseFunc) {
			c := under(ctx)
			return c, c.End
		},
		"a value's": func(ctx context.Context) (context.Context, context.CancelCauseFunc) {
			c := under(ctx)
			return context.WithValue(c, key{}, 2), c.End
		},
	}
	roots := map[string]func() (context.Context, context.CancelFunc){
		"background": func() (context.Context, context.CancelFunc) { return background(), func() {} },
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(background(), time.Hour)
		},
	}
	for _, root := range []string{"background", "deadline"} {
		for _, which := range []int{0, 1, 2, 3} { // the context that ends: 0 is the root, by its deadline
			for _, cause := range []error{nil, errWhy} {
				want := chain(t, roots[root], []func(context.Context) (context.Context, context.CancelCauseFunc){kinds["standard"], kinds["standard"], kinds["standard"]}, which, cause, true)
				for _, names := range [][3]string{
					{"ours", "ours", "ours"},
					{"standard", "ours", "standard"},
					{"ours", "standard", "ours"},
					{"ours", "standard", "standard"},
					{"a value's", "ours", "standard"},
					{"standard", "a value's", "ours"},
				} {
					for _, looked := range []bool{false, true} {
						got := chain(t, roots[root], []func(context.Context) (context.Context, context.CancelCauseFunc){kinds[names[0]], kinds[names[1]], kinds[names[2]]}, which, cause, looked)
						if got != want {
							t.Errorf("%s, %v, the end of %d with %v, looked at %v:\n%s\nwant\n%s", root, names, which, cause, looked, got, want)
						}
					}
				}
			}
		}
	}
}

// chain creates a chain of contexts, ends one of them, and returns the states of all, and
// of another context that is created below the last one afterwards.
func chain(t *testing.T, root func() (context.Context, context.CancelFunc), makes []func(context.Context) (context.Context, context.CancelCauseFunc), which int, cause error, looked bool) (seen string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := root()
		defer cancel()
		all, ends := []context.Context{ctx}, []context.CancelCauseFunc{func(error) { time.Sleep(time.Hour) }}
		for _, one := range makes {
			next, done := one(all[len(all)-1])
			defer done(nil)
			all, ends = append(all, next), append(ends, done)
		}
		for _, ctx := range all {
			if looked && ctx.Done() == nil && ctx != background() {
				t.Error("no channel")
			}
		}
		ends[which](cause)
		synctest.Wait()
		ends[which](errors.New("too late"))
		late, done := makes[2](all[len(all)-1])
		defer done(nil)
		synctest.Wait()
		for _, ctx := range append(all, late) {
			at, ok := ctx.Deadline()
			seen += fmt.Sprintln(end(ctx), !at.IsZero(), ok)
		}
	})
	return seen
}

// Carry takes over the values of a context, and not its end.
func TestCarry(t *testing.T) {
	above, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 1))
	var c life.Context
	c.Carry(above)
	cancel()
	if got := end(&c); got != "open <nil>, <nil>" {
		t.Errorf("after the end of what it carries: %s", got)
	}
	if got := c.Value(key{}); got != 1 {
		t.Errorf("value %v, want 1", got)
	}
	c.End(errWhy)
	if got := end(&c); got != "closed context canceled, why" {
		t.Errorf("after its own end: %s", got)
	}
	if got := c.Value(key{}); got != 1 {
		t.Errorf("value %v after the end, want 1", got)
	}
}

// The context of Apart has the values, never ends, and does not retain the struct of the
// original context.
func TestApart(t *testing.T) {
	type request struct {
		body []byte
		life life.Context
	}
	above := context.WithValue(t.Context(), key{}, 1)
	for name, of := range map[string]func(r *request) context.Context{
		"one": func(r *request) context.Context { return &r.life },
		"two": func(r *request) context.Context { return under(&r.life) },
	} {
		r := &request{body: []byte(name)}
		r.life.Carry(above)
		kept := weak.Make(r)
		apart := life.Apart(of(r))
		r.life.End(errWhy)
		if got := end(apart); got != "open <nil>, <nil>" || apart.Value(key{}) != 1 {
			t.Errorf("%s: %s with %v", name, got, apart.Value(key{}))
		}
		runtime.GC() // nothing of r is used below
		if kept.Value() != nil {
			t.Errorf("%s: it is kept", name)
		}
		runtime.KeepAlive(apart)
	}
	if got := life.Apart(new(life.Context)); got != background() {
		t.Errorf("apart from nothing: %v", got)
	}
}

// The zero value is a context without values, deadline and end.
func TestZeroValue(t *testing.T) {
	var c life.Context
	if _, ok := c.Deadline(); ok || c.Value(key{}) != nil || c.Err() != nil || fmt.Sprint(&c) != "life.Context" {
		t.Error("it has something")
	}
	c.Leave()
	c.End(nil)
	if got := end(&c); got != "closed context canceled, context canceled" {
		t.Errorf("after its end: %s", got)
	}
}

// After Leave, a context does not end with the followed context, but End still ends it.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		std, cancel := context.WithCancel(t.Context())
		defer cancel()
		ours := new(life.Context)
		below := []*life.Context{under(std), under(ours)}
		for _, c := range below {
			c.Leave()
			c.Leave()
		}
		cancel()
		ours.End(nil)
		synctest.Wait()
		for i, above := range []context.Context{std, ours} {
			c := below[i]
			if got := end(c); got != "open <nil>, <nil>" {
				t.Errorf("below %v: %s", above, got)
			}
			c.End(errWhy)
			if got := end(c); got != "closed context canceled, why" {
				t.Errorf("below %v, after its own end: %s", above, got)
			}
		}
	})
}

// If some of several followers leave, in any order, exactly the others are ended.
func TestManyFollow(t *testing.T) {
	for _, leaving := range [][]int{{}, {0}, {4}, {2}, {0, 1}, {4, 3, 2}, {1, 3}, {0, 4, 2}, {2, 1, 0, 4, 3}} {
		var above life.Context
		below := make([]life.Context, 5)
		for i := range below {
			below[i].Follow(&above)
		}
		left := map[int]bool{}
		for _, i := range leaving {
			below[i].Leave()
			left[i] = true
		}
		above.End(nil)
		for i := range below {
			if got := below[i].Err() != nil; got == left[i] {
				t.Errorf("leaving %v: %d has ended: %v", leaving, i, got)
			}
		}
	}
}

// Children of the standard library have ended when End returns, with the same cause.
func TestStandardOnesEndAtOnce(t *testing.T) {
	var above life.Context
	c := under(&above)
	child, cancel := context.WithCancel(c)
	defer cancel()
	other, cancelOther := context.WithTimeout(child, time.Hour)
	defer cancelOther()
	above.End(errWhy)
	for _, ctx := range []context.Context{child, other} {
		if got, want := end(ctx), "closed context canceled, why"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A function is called once, at the end, unless it is stopped before. A function of
// [context.AfterFunc] runs on its own goroutine.
func TestAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c life.Context
		var mu sync.Mutex
		called := make([]int, 4)
		note := func(i int) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				called[i]++
				if c.Err() == nil {
					t.Error("called before the end")
				}
			}
		}
		stops := []func() bool{c.AfterFunc(note(0)), c.AfterFunc(note(1)), context.AfterFunc(&c, note(2))}
		if !stops[0]() || stops[0]() {
			t.Error("stopped not once")
		}
		c.End(nil)
		if called[1] != 1 {
			t.Error("not called when it has ended")
		}
		stops = append(stops, c.AfterFunc(note(3)))
		synctest.Wait()
		for i, stop := range stops {
			if stop() {
				t.Errorf("%d: stopped when it was called", i)
			}
		}
		if got := fmt.Sprint(called); got != "[0 1 1 1]" {
			t.Errorf("called %s times, want all but the first once", got)
		}
	})
}

// A second call of a stop function does not stop another function.
func TestStoppedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c life.Context
		stop := c.AfterFunc(func() { t.Error("called") })
		stop()
		called := false
		c.AfterFunc(func() { called = true })
		if stop() {
			t.Error("stopped again")
		}
		c.End(nil)
		synctest.Wait()
		if !called {
			t.Error("the other is not called")
		}
	})
}

// Follow, Leave and End may be called concurrently: all contexts that have not left end.
func TestAllAtOnce(t *testing.T) {
	for range 200 {
		var above life.Context
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				var c life.Context
				c.Follow(&above)
				below, cancel := context.WithCancel(&c)
				defer cancel()
				if i%2 == 0 {
					c.Leave()
					c.End(nil)
				}
				<-c.Done()
				<-below.Done()
			})
		}
		wg.Go(func() { above.End(errWhy) })
		wg.Go(func() { above.End(nil) })
		wg.Wait()
	}
}

// A Context that follows another one costs no allocation.
func TestAllocations(t *testing.T) {
	var above life.Context
	type call struct {
		outer, inner life.Context
		ctx          context.Context
	}
	room := make([]call, 300)
	i := 0
	got := testing.AllocsPerRun(100, func() {
		c := &room[i]
		i++
		c.outer.Carry(&above)
		c.outer.Follow(&above)
		c.inner.Follow(&c.outer)
		c.ctx = &c.inner
		if c.ctx.Err() != nil {
			t.Fatal("ended")
		}
		c.inner.End(nil)
		c.outer.End(nil)
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// BenchmarkBelow creates the two contexts of a call, and a child as net/http creates one.
func BenchmarkBelow(b *testing.B) {
	b.Run("standard", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			above, end := context.WithCancelCause(context.WithoutCancel(b.Context()))
			outer, cancel := context.WithCancelCause(above)
			inner, cut := context.WithCancel(background())
			stop := context.AfterFunc(outer, cut)
			_, done := context.WithCancelCause(inner)
			done(nil)
			stop()
			cut()
			cancel(nil)
			end(nil)
		}
	})
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := new(struct{ above, outer, inner life.Context })
			c.above.Carry(b.Context())
			c.outer.Carry(&c.above)
			c.outer.Follow(&c.above)
			c.inner.Follow(&c.outer)
			_, done := context.WithCancelCause(&c.inner)
			done(nil)
			c.inner.End(nil)
			c.outer.End(nil)
			c.above.End(nil)
		}
	})
}
