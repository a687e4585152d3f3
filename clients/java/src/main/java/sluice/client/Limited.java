package sluice.client;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import sluice.v1.Mode;

/**
 * Limits each call of a method: a denied one throws {@link LimitedException}. Takes effect through
 * {@link LimitedProxy} or, with Spring, {@code sluice.spring.LimitedAdvisor}.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
public @interface Limited {
  String domain();

  /**
   * Attributes such as {@code "endpoint=/pay"}, {@code "user={user}"} (the argument of that name;
   * the class must be compiled with {@code -parameters}), or {@code "user={0}"} (the first
   * argument).
   */
  String[] attributes();

  /** Units to take. */
  long cost() default 1;

  Mode mode() default Mode.MODE_CONSUME;
}
